-- ARGV: version. Versions only grow: a retried, late call changes nothing.
--> ok swept:ints
if tonumber(ARGV[1]) <= int('version') then return {'ok', {}} end
call('HSET', run, 'version', ARGV[1])
return {'ok', sweep()}
