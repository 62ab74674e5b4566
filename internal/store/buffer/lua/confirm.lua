-- ARGV: era, the replication id under which the run has compared the account with its own. Nothing is confirmed that was
-- repaired, or that Redis has replaced, since.
--> ok confirmed:int
if int('era') > tonumber(ARGV[1]) or replication_id() ~= ARGV[2] then return {'ok', 0} end
local before = call('HGET', run, 'confirmed')
call('HSET', run, 'era', ARGV[1], 'confirmed', ARGV[2])
-- A master that was cut off goes on counting generations, which must not be those of the next one.
if before and before ~= ARGV[2] then call('HSET', run, 'least_generation', int('generation') + STRIDE) end
changed()
return {'ok', 1}
