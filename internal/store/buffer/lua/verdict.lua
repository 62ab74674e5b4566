-- ARGV: the verdict that must stand, the new one, the fact about the change. If two servers notice the same change,
-- only one writes the fact.
--> ok done:int
local older = base .. 'older'
if (call('HGET', older, 'verdict') or '') ~= ARGV[1] then return {'ok', 0} end
call('HSET', older, 'verdict', ARGV[2])
tell(ARGV[3])
return {'ok', 1}
