-- ARGV: limits (8), as of
if call('EXISTS', run) == 0 then return {'no-such-run'} end
if not news(ARGV[9]) then return {'ok', {}} end
set_limits(1)
return {'ok', sweep()}
