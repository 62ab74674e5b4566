-- ARGV: id of the workflow that drives the run from now on
--> ok
call('HSET', run, 'over', 0, 'workflow', ARGV[1])
return {'ok'}
