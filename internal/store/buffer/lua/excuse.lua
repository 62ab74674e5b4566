-- ARGV: seq, sample or 'warm-up', number of the attempt. Takes back that it is held against the game, once, and nothing
-- when a later one was excused.
--> ok
local seq, sample, prefix = ARGV[1], ARGV[2], ''
if sample == 'warm-up' then prefix, sample = 'w', '' end
local number, attempts = prefix .. 'a' .. sample, prefix .. 'b' .. sample
local excused, which = prefix .. 'x' .. sample, prefix .. 'y' .. sample
local old = call('HMGET', games(seq), number, attempts, which)
local attempt = tonumber(ARGV[3])
if not old[2] or attempt > tonumber(old[1] or '0') or attempt <= tonumber(old[3] or '0') then return {'ok'} end
call('HSET', games(seq), which, ARGV[3])
call('HINCRBY', games(seq), attempts, -1)
call('HINCRBY', games(seq), excused, 1)
return {'ok'}
