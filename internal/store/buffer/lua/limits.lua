-- ARGV: which time it is said, the fact of a stale group (template), limits
--> ok
if not news(ARGV[1]) then return {'ok'} end
set_limits(3)
sweep(ARGV[2])
changed()
return {'ok'}
