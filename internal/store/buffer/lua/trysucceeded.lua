-- ARGV: finished games, now, then a name and a count for each counter. At most MAX_COUNTS names are kept.
--> ok
local MAX_COUNTS = 64
local attempts = base .. 'attempts'
if ARGV[1] ~= '0' then call('HINCRBY', run, 'games_finished', ARGV[1]) end
call('HSET', attempts, 'e', ARGV[2])
for i = 3, #ARGV, 2 do
  local name = 'c ' .. ARGV[i]
  local known = call('HEXISTS', attempts, name) == 1
  if known or int('try_counts') < MAX_COUNTS then
    if not known then call('HINCRBY', run, 'try_counts', 1) end
    call('HINCRBY', attempts, name, ARGV[i + 1])
  end
end
call('DEL', base .. 'failing')
return {'ok'}
