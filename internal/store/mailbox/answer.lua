-- A worker answers a call, or ends the game. KEYS: open, seen, game, answer. ARGV: the game's name, attempt, lease, the
-- call's field, the field of its agent's place, the place or -1, answer, how long it is kept in ms, ending or nothing,
-- channel, the field of where the answer goes to, where it was told before. A place only grows: the answer may be given
-- again. Answers how the game stands, or nothing to an attempt that is overtaken.
if overtaken(KEYS[3], ARGV[2]) then return '' end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('HGET', KEYS[3], 'lease') == ARGV[3] then
  redis.call('HDEL', KEYS[3], ARGV[4])
  redis.call('SET', KEYS[4], ARGV[7], 'PX', ARGV[8])
  if tonumber(ARGV[6]) > tonumber(redis.call('HGET', KEYS[3], ARGV[5]) or '-1') then
    redis.call('HSET', KEYS[3], ARGV[5], ARGV[6])
  end
  if ARGV[9] ~= '' then
    redis.call('HSET', KEYS[3], 'over', ARGV[9])
    redis.call('ZREM', KEYS[1], ARGV[1])
    redis.call('ZREM', KEYS[2], ARGV[1])
  else
    redis.call('ZADD', KEYS[1], 'XX', now + redis.call('HGET', KEYS[3], 'for'), ARGV[1])
    redis.call('ZADD', KEYS[2], 'XX', now, ARGV[1], now, 'program')
  end
  local to = redis.call('HGET', KEYS[3], ARGV[11]) or ARGV[10]
  if to ~= ARGV[12] then redis.call('PUBLISH', to, KEYS[4] .. '\n' .. ARGV[7]) end
  redis.call('HDEL', KEYS[3], ARGV[11])
end
return standing(KEYS[1], KEYS[3], ARGV[1], now)
