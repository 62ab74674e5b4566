-- ARGV: limits
if call('EXISTS', run) == 0 then return {'no-such-run'} end
set_limits(1)
return {'ok', sweep()}
