-- A worker says that it plays a game that is open. KEYS: seen. ARGV: the game's name.
local clock = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', clock[1] * 1000 + math.floor(clock[2] / 1000), ARGV[1])
