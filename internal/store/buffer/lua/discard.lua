-- ARGV: seq, code, the fact, mean length of its games as far as they have come, or ''
--> ok
--> conflict state:text
local seq = ARGV[1]
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state == 'dropped' then return {'ok'} end
if state and state ~= 'queued' and state ~= 'in_flight' then return {'conflict', state} end
if state and ARGV[4] ~= '' then call('HSET', group(seq), 'len', ARGV[4]) end
drop(seq, state, ARGV[2], ARGV[3])
return {'ok'}
