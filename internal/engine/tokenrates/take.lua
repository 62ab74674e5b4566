-- Takes out what was read, and tells of it. KEYS: counts. ARGV: since, as it was read, or ''; now in ms; the fields of
-- workers that are gone, after their number; then of each part its name, its four counts and its event. Answers whether
-- this was the first to take these out.
local counts = KEYS[1]
if (redis.call('HGET', counts, 'since') or '') ~= ARGV[1] then return 0 end
redis.call('HSET', counts, 'since', ARGV[2])
local workers = tonumber(ARGV[3])
for i = 4, 3 + workers do redis.call('HDEL', counts, ARGV[i]) end
for at = 4 + workers, #ARGV, 6 do
  for i = 1, 4 do
    local field = i .. '/' .. ARGV[at]
    local taken = ARGV[at + i]
    if taken ~= '0' and redis.call('HINCRBY', counts, field, '-' .. taken) <= 0 then
      redis.call('HDEL', counts, field)
    end
  end
  tell(ARGV[at + 5])
end
return 1
