-- ARGV: generation, now. The trainer lives, and says so while it trains.
--> ok
--> fenced generation:int
local generation = int('generation')
if tonumber(ARGV[1]) ~= generation then return {'fenced', generation} end
call('HSET', run, 'heard', ARGV[2], 'beats', 1)
return {'ok'}
