-- ARGV: seq, code, the fact
--> ok
--> conflict state:text
local seq = ARGV[1]
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state == 'dropped' then return {'ok'} end
if state and state ~= 'queued' and state ~= 'inflight' then return {'conflict', state} end
drop(seq, state, ARGV[2], ARGV[3])
return {'ok'}
