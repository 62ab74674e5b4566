-- ARGV: code, given up (1 or 0), now, last (JSON), the fact. Codes beyond MAX_TRY_CODES count as 'other'.
--> ok
local MAX_TRY_CODES = 64
local attempts, code = base .. 'attempts', ARGV[1]
if call('HEXISTS', attempts, 'n ' .. code) == 0 then
  if int('try_codes') >= MAX_TRY_CODES then
    code = 'other'
  else
    call('HINCRBY', run, 'try_codes', 1)
  end
end
call('HINCRBY', attempts, 'n ' .. code, 1)
call('HINCRBY', attempts, 'g ' .. code, ARGV[2])
call('HSET', attempts, 'l ' .. code, ARGV[4])
call('HSETNX', base .. 'failing', 'since', ARGV[3])
call('HINCRBY', base .. 'failing', 'r ' .. code, 1)
tell_once(ARGV[5])
return {'ok'}
