-- ARGV: seq, sample, attempt, phases, the fact. The first finished game of a sample stands; it is in its journal.
--> ok
--> fenced why:text
--> fenced why:text attempt:int
local seq, sample, attempt = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state and state ~= 'queued' and state ~= 'in_flight' then return {'fenced', state} end
local old = call('HMGET', games(seq), 'a' .. sample, 'e' .. sample)
if old[2] then return {'ok'} end
local last = tonumber(old[1] or '0')
if attempt < last then return {'fenced', 'attempt', last} end
if state ~= 'in_flight' then move(seq, state, 'in_flight') end
call('HSET', games(seq), 'a' .. sample, attempt, 'e' .. sample, 'journal', 'p' .. sample, ARGV[4])
tell(ARGV[5])
return {'ok'}
