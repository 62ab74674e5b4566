-- ARGV: id of the workflow that drives the run from now on
if call('EXISTS', run) == 0 then return {'no-such-run'} end
call('HSET', run, 'over', 0, 'workflow', ARGV[1])
return {'ok'}
