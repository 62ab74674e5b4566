-- A worker answers a call, or ends the game. KEYS: open, seen, game, answer. ARGV: the game's name, lease, the call's
-- field, the field of its agent's place, the place or -1, answer, how long it is kept in ms, ending or nothing, channel,
-- what waits for answers. A place only grows: an earlier attempt at the game may be late.
if redis.call('HGET', KEYS[3], 'lease') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[3], ARGV[3])
redis.call('SET', KEYS[4], ARGV[6], 'PX', ARGV[7])
if tonumber(ARGV[5]) > tonumber(redis.call('HGET', KEYS[3], ARGV[4]) or '-1') then
  redis.call('HSET', KEYS[3], ARGV[4], ARGV[5])
end
if ARGV[8] ~= '' then
  redis.call('HSET', KEYS[3], 'over', ARGV[8])
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('PUBLISH', ARGV[9], ARGV[10])
return 1
