-- ARGV: status, over (1 or 0; 2: over, unless the account is behind what the status says, or not compared), which time it is said, then facts, which are told however late the status comes. Answers whether it was news, and whether the run was over before.
--> ok news:int was_over:int
for i = 4, #ARGV do tell_once(ARGV[i]) end
local over = ARGV[2]
if over == '2' then
  over = '1'
  local confirmed = call('HGET', run, 'confirmed')
  if confirmed and confirmed ~= replication_id() or int('next') < cjson.decode(ARGV[1]).next_step then
    return {'ok', 0, 0}
  end
end
if not news(ARGV[3]) then return {'ok', 0, 0} end
local was = int('over')
call('HSET', run, 'status', ARGV[1], 'over', over)
if int('over') ~= was then changed() end
return {'ok', 1, was}
