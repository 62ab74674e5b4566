-- ARGV: spec, depth, groups_per_step, max_staleness, on_stale, steps, groups ready before the first claim
local spec = call('HGET', run, 'spec')
if spec and spec ~= ARGV[1] then return {'conflict'} end
if spec then return {'ok', 0} end
call('HSET', run, 'spec', ARGV[1], 'highest', -1)
set_limits(ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7])
return {'ok', 1}
