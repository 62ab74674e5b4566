-- ARGV: era, the replication id under which the run has compared the account with its own. Nothing is confirmed that was
-- repaired, or that Redis has replaced, since.
--> ok confirmed:int
if int('era') > tonumber(ARGV[1]) or replication_id() ~= ARGV[2] then return {'ok', 0} end
call('HSET', run, 'era', ARGV[1], 'confirmed', ARGV[2])
changed()
return {'ok', 1}
