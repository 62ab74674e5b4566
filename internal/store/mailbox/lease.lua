-- A program leases a game. KEYS: open, seen. ARGV: lease, for how long in ms, after how many ms unseen a game is not
-- offered, what leads the key of a game, how long it is kept in ms. Answers name, scenario, how often it was leased;
-- nil: none is open.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1000)) do
  local seen = tonumber(redis.call('ZSCORE', KEYS[2], name) or '0')
  if seen < now - tonumber(ARGV[3]) then
    redis.call('ZREM', KEYS[1], name) -- its worker offers it again
    redis.call('ZREM', KEYS[2], name)
  else
    local game = ARGV[4] .. name
    for _, field in ipairs(redis.call('HKEYS', game)) do -- the program before this one left them
      if string.match(field, '^%l+:') then redis.call('HDEL', game, field) end
    end
    redis.call('ZADD', KEYS[1], now + ARGV[2], name)
    redis.call('ZADD', KEYS[2], now, 'program')
    redis.call('HSET', game, 'lease', ARGV[1], 'for', ARGV[2])
    redis.call('PEXPIRE', game, ARGV[5])
    return {name, redis.call('HGET', game, 'scenario') or '{}', redis.call('HINCRBY', game, 'leased', 1)}
  end
end
return nil
