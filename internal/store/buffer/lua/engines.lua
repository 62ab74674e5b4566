-- ARGV: step, its engines packed. Keeps what each engine did for a granted step, for its record.
--> ok
local key = step_key(tonumber(ARGV[1]))
if call('EXISTS', key) == 1 then call('HSET', key, 'engines', ARGV[2]) end
return {'ok'}
