-- ARGV: status, over (1 or 0)
if call('EXISTS', run) == 0 then return {'no-such-run'} end
call('HSET', run, 'status', ARGV[1], 'over', ARGV[2])
return {'ok'}
