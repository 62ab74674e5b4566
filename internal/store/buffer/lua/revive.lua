-- A lost run goes on, and what its lost workflow said comes late.
--> ok
call('HSET', run, 'over', 0)
supersede()
return {'ok'}
