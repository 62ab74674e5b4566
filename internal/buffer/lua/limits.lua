-- ARGV: as of, limits
--> ok swept:ints
if not news(ARGV[1]) then return {'ok', {}} end
set_limits(2)
return {'ok', sweep()}
