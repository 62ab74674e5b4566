-- ARGV: version, the fact of a stale group (template). Versions only grow: a retried, late call changes nothing.
--> ok
if tonumber(ARGV[1]) <= int('version') then return {'ok'} end
call('HSET', run, 'version', ARGV[1])
sweep(ARGV[2])
changed()
return {'ok'}
