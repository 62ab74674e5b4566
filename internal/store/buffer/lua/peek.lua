-- ARGV: seq. For a group that is neither queued nor in flight, answers what commit would.
--> ok state:text code:text
if not known_range(ARGV[1]) then return {'invalid'} end
local state, code = state_of(ARGV[1])
return {'ok', state or '', code or ''}
