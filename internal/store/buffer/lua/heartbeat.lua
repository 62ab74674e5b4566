-- ARGV: generation, now, why it ends. The trainer lives, and says so while it trains; or it ends, unless it is heard of
-- again later.
--> ok
--> fenced generation:int
local generation = int('generation')
if tonumber(ARGV[1]) ~= generation then return {'fenced', generation} end
call('HSET', run, 'heard', ARGV[2], 'beats', 1)
if ARGV[3] ~= '' then call('HSET', run, 'ended_at', ARGV[2], 'ended', ARGV[3]) end
return {'ok'}
