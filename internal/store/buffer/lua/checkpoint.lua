-- ARGV: seq, sample, attempt, phase. Notes how far a game has come, before it is saved as a whole. A higher attempt always
-- wins: its game goes on where it loaded, whatever an attempt that was taken for dead has saved since.
--> ok
--> fenced why:text
--> fenced why:text by:int
local seq, sample, attempt, phase = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state and state ~= 'queued' and state ~= 'in_flight' then return {'fenced', state} end
local old = call('HMGET', games(seq), 'a' .. sample, 'p' .. sample, 'e' .. sample)
if old[3] then return {'fenced', 'finished'} end
local last = tonumber(old[1] or '0')
if attempt < last then return {'fenced', 'attempt', last} end
if attempt == last and phase < tonumber(old[2] or '0') then return {'fenced', 'phase', tonumber(old[2])} end
if state ~= 'in_flight' then move(seq, state, 'in_flight') end
call('HSET', games(seq), 'a' .. sample, attempt, 'p' .. sample, phase)
return {'ok'}
