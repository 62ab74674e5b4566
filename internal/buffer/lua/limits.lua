-- ARGV: as of, limits
if call('EXISTS', run) == 0 then return {'no-such-run'} end
if not news(ARGV[1]) then return {'ok', {}} end
set_limits(2)
return {'ok', sweep()}
