-- ARGV: version, the fact of a stale group (template), generation of the trainer that published it; 0: nobody's.
-- Versions only grow: a retried, late call changes nothing.
--> ok
--> fenced generation:int
if tonumber(ARGV[1]) <= int('version') then return {'ok'} end
local generation = int('generation')
if ARGV[3] ~= '0' and tonumber(ARGV[3]) ~= generation then return {'fenced', generation} end
call('HSET', run, 'version', ARGV[1])
sweep(ARGV[2])
changed()
return {'ok'}
