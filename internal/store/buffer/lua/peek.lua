-- ARGV: seq. Answers what commit would answer of a group that has left queued and in flight.
--> ok state:text code:text
if not known_range(ARGV[1]) then return {'invalid'} end
local state, code = state_of(ARGV[1])
return {'ok', state or '', code or ''}
