-- ARGV: seq
--> ok
--> fenced state:text code:text
local seq = ARGV[1]
if not known_range(seq) then return {'invalid'} end
local state, code = state_of(seq)
if state == 'dropped' then return {'fenced', state, code} end
if not state or state == 'queued' then move(seq, state, 'in_flight') end
return {'ok'}
