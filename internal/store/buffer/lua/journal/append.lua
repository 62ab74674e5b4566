-- ARGV: attempt, phases finished or '', seconds that it is kept after, records. A journal that is gone is not begun again
-- here: its group is over, or Redis has lost it.
if not head then return {'gone'} end
if finished == '1' then return {'finished'} end
call('RPUSH', journal, unpack(ARGV, 4))
if ARGV[2] ~= '' then
  call('LSET', journal, 0, string.format('%d %s 0', attempt, ARGV[2]))
  call('EXPIRE', journal, ARGV[3])
end
return {'ok'}
