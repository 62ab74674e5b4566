-- ARGV: what a diagnosis must have said last, what it says now, the fact that tells of the change. Of two servers that
-- notice the same change, one tells.
--> ok done:int
local older = base .. 'older'
if (call('HGET', older, 'verdict') or '') ~= ARGV[1] then return {'ok', 0} end
call('HSET', older, 'verdict', ARGV[2])
tell(ARGV[3])
return {'ok', 1}
