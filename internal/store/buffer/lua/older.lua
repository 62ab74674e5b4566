-- ARGV: the first step that must not be summed up yet, the one that is not with this, what is kept of the steps before,
-- as JSON. Of two servers that sum up the same steps, the second changes nothing.
--> ok done:int
local older = base .. 'older'
if tonumber(call('HGET', older, 'to') or '0') ~= tonumber(ARGV[1]) then return {'ok', 0} end
call('HSET', older, 'to', ARGV[2], 'steps', ARGV[3])
return {'ok', 1}
