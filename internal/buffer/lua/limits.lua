-- ARGV: depth, groups_per_step, max_staleness, on_stale, steps, groups ready before the first claim
if call('EXISTS', run) == 0 then return {'no-such-run'} end
set_limits(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
return {'ok', sweep()}
