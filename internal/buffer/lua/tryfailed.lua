-- ARGV: code, given up (1 or 0), now, last (JSON), the fact. Codes beyond MAX_TRY_CODES count as 'other'.
--> ok
local MAX_TRY_CODES = 64
local tries, code = base .. 'tries', ARGV[1]
if call('HEXISTS', tries, 'n ' .. code) == 0 then
  if int('try_codes') >= MAX_TRY_CODES then
    code = 'other'
  else
    call('HINCRBY', run, 'try_codes', 1)
  end
end
call('HINCRBY', tries, 'n ' .. code, 1)
call('HINCRBY', tries, 'g ' .. code, ARGV[2])
call('HSET', tries, 'l ' .. code, ARGV[4])
call('HSETNX', base .. 'failing', 'since', ARGV[3])
call('HINCRBY', base .. 'failing', 'r ' .. code, 1)
tell_once(ARGV[5])
return {'ok'}
