-- A lost run goes on.
--> ok
call('HSET', run, 'over', 0)
return {'ok'}
