-- ARGV: spec, limits
local spec = call('HGET', run, 'spec')
if spec and spec ~= ARGV[1] then return {'conflict'} end
if spec then return {'ok', 0} end
call('HSET', run, 'spec', ARGV[1], 'highest', -1)
set_limits(2)
return {'ok', 1}
