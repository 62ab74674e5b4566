-- A worker answers a call, or ends the game. KEYS: open, seen, game, answer. ARGV: the game's name, lease, the call's
-- field, the field of its agent's place, the place or -1, answer, how long it is kept in ms, ending or nothing, channel,
-- the field of where the answer goes to, where it was told before. A place only grows: an earlier attempt at the game may be late. Answers how the
-- game stands.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('HGET', KEYS[3], 'lease') == ARGV[2] then
  redis.call('HINCRBY', KEYS[3], 'changes', 1)
  redis.call('HDEL', KEYS[3], ARGV[3])
  redis.call('SET', KEYS[4], ARGV[6], 'PX', ARGV[7])
  if tonumber(ARGV[5]) > tonumber(redis.call('HGET', KEYS[3], ARGV[4]) or '-1') then
    redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
  end
  if ARGV[8] ~= '' then
    redis.call('HSET', KEYS[3], 'over', ARGV[8])
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('ZREM', KEYS[2], ARGV[1])
  else
    redis.call('ZADD', KEYS[1], 'XX', now + redis.call('HGET', KEYS[3], 'for'), ARGV[1])
    redis.call('ZADD', KEYS[2], 'XX', now, ARGV[1], now, 'program')
  end
  local to = redis.call('HGET', KEYS[3], ARGV[10]) or ARGV[9]
  if to ~= ARGV[11] then redis.call('PUBLISH', to, KEYS[4] .. '\n' .. ARGV[6]) end
  redis.call('HDEL', KEYS[3], ARGV[10])
end
return standing(KEYS[1], KEYS[3], ARGV[1], now)
