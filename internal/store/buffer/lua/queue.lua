-- ARGV: seq, scenario, version it is launched with, launched at. The first scenario wins; '' means no scenario.
--> ok scenario:text
--> fenced state:text code:text
local seq = ARGV[1]
if not known_range(seq) then return {'invalid'} end
local state, code = state_of(seq)
if state == 'dropped' then return {'fenced', state, code} end
if state == 'trained' then return {'fenced', state, ''} end
if not state then move(seq, nil, 'queued') end
if ARGV[2] ~= '' then call('HSETNX', group(seq), 'scenario', ARGV[2]) end
call('HSETNX', group(seq), 'from', ARGV[3])
call('HSETNX', group(seq), 'launched', ARGV[4])
return {'ok', call('HGET', group(seq), 'scenario') or ''}
