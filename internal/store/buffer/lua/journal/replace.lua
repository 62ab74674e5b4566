-- KEYS: journal, the finished game's state. ARGV: attempt, phases finished, seconds that it is kept after, record of the
-- game as a whole, 1 if it is finished, the state. What was in the journal is void, or lost; a finished game stands.
if finished == '1' then return {'ok'} end
call('DEL', journal)
call('RPUSH', journal, string.format('%d %s %s', attempt, ARGV[2], ARGV[5]), ARGV[4])
call('EXPIRE', journal, ARGV[3])
if ARGV[5] == '1' then call('SET', KEYS[2], ARGV[6]) end
return {'ok'}
