-- ARGV: spec, id of the workflow that drives the run, or '', least epoch, limits
if call('EXISTS', base .. 'gone') == 1 then return {'run-over'} end
local spec = call('HGET', run, 'spec')
if spec and spec ~= ARGV[1] then return {'conflict'} end
if spec then return {'ok', 0} end
call('HSET', run, 'spec', ARGV[1], 'highest', -1, 'epoch', ARGV[3])
if ARGV[2] ~= '' then call('HSET', run, 'workflow', ARGV[2]) end
set_limits(4)
return {'ok', 1}
