-- A worker looks after a game: the game is offered to programs unless it is over. KEYS: open, seen, game. ARGV: the
-- game's name, attempt, how long all this is kept in ms, scenario, channel, what waits for open games, the worker's own
-- channel. Answers how the game stands, or nothing to an attempt that is overtaken.
if overtaken(KEYS[3], ARGV[2]) then return '' end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('HEXISTS', KEYS[3], 'over') == 0 then
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
  if redis.call('ZADD', KEYS[1], 'NX', 0, ARGV[1]) == 1 then
    redis.call('HSET', KEYS[3], 'scenario', ARGV[4])
    redis.call('PUBLISH', ARGV[5], ARGV[6])
  end
  redis.call('HSET', KEYS[3], 'worker', ARGV[7], 'attempt', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
return standing(KEYS[1], KEYS[3], ARGV[1], now)
