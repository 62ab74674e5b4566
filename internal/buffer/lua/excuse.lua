-- ARGV: seq, sample or 'warm-up', number of the attempt. Takes back that it is held against the game, once.
--> ok
local seq, sample, prefix = ARGV[1], ARGV[2], ''
if sample == 'warm-up' then prefix, sample = 'w', '' end
local number, tries = prefix .. 'a' .. sample, prefix .. 'b' .. sample
local excused, which = prefix .. 'x' .. sample, prefix .. 'y' .. sample
local old = call('HMGET', games(seq), number, tries, which)
if old[1] ~= ARGV[3] or old[3] == ARGV[3] or not old[2] then return {'ok'} end
call('HSET', games(seq), which, ARGV[3])
call('HINCRBY', games(seq), tries, -1)
call('HINCRBY', games(seq), excused, 1)
return {'ok'}
