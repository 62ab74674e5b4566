-- ARGV: era, serial up to which the run's workflow knows the account.
--> ok
if int('era') == tonumber(ARGV[1]) and int('marked') < tonumber(ARGV[2]) then call('HSET', run, 'marked', ARGV[2]) end
return {'ok'}
