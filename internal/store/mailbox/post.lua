-- A program posts a call, or is heard of. KEYS: open, seen, game, answer. ARGV: the game's name, lease, the call's
-- field, the call, or nothing if it was posted before, after how many ms unseen nobody plays the game, how long all is
-- kept in ms, channel, what waits for calls, the field of where its answer goes to, the server's own channel.
local MOST_TOLD = 262144 -- bytes: Redis keeps in memory what a worker has not read. Who is told nothing looks

if redis.call('HGET', KEYS[3], 'lease') ~= ARGV[2] then return {'ended'} end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local answer = redis.call('GET', KEYS[4])
if answer then
  if string.find(answer, '^{"fault":') then redis.call('DEL', KEYS[4]) end -- the same may be right later
  return {'answer', answer}
end
local over = redis.call('HGET', KEYS[3], 'over')
if over then return {'over', over} end
redis.call('ZADD', KEYS[1], now + redis.call('HGET', KEYS[3], 'for'), ARGV[1])
redis.call('ZADD', KEYS[2], now, 'program')
redis.call('PEXPIRE', KEYS[1], ARGV[6])
redis.call('PEXPIRE', KEYS[3], ARGV[6])
local known = redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1
if known or ARGV[4] ~= '' then redis.call('HSET', KEYS[3], ARGV[9], ARGV[10]) end
if not known and ARGV[4] ~= '' then
  redis.call('HSET', KEYS[3], ARGV[3], redis.call('HINCRBY', KEYS[3], 'posted', 1) .. ' ' .. ARGV[4])
  local told = standing(KEYS[1], KEYS[3], ARGV[1], now)
  if #told > MOST_TOLD then told = '' end
  redis.call('PUBLISH', redis.call('HGET', KEYS[3], 'worker') or ARGV[7], ARGV[8] .. '\n' .. told)
  known = true
end
local seen = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or '0')
if seen < now - tonumber(ARGV[5]) then return {'absent'} end
return {known and 'posted' or 'unknown'}
