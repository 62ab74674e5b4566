-- ARGV: seq, sample, attempt, agent, answer. Of each agent the latest answer is kept, until the group is committed or
-- let go.
--> ok
--> fenced why:text
--> fenced why:text attempt:int
local seq, sample, attempt = ARGV[1], ARGV[2], tonumber(ARGV[3])
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state ~= 'queued' and state ~= 'inflight' then return {'fenced', state or 'unknown'} end
local old = call('HMGET', games(seq), 'a' .. sample, 'e' .. sample)
if old[2] then return {'fenced', 'finished'} end
local last = tonumber(old[1] or '0')
if attempt < last then return {'fenced', 'attempt', last} end
call('HSET', games(seq), 't' .. sample .. '/' .. ARGV[4], ARGV[5])
return {'ok'}
