-- KEYS: journal, the finished game's state. ARGV: attempt, phases finished, seconds that it is kept after, record, the state.
-- The first end stands.
if not head then return {'gone'} end
if finished == '1' then return {'ok'} end
call('RPUSH', journal, ARGV[4])
call('LSET', journal, 0, string.format('%d %s 1', attempt, ARGV[2]))
call('EXPIRE', journal, ARGV[3])
call('SET', KEYS[2], ARGV[5])
return {'ok'}
