-- ARGV: attempt, phases finished or '', seconds that it is kept after, how many arguments are news, pairs of channel and
-- text, records. A journal that is gone is not begun again
-- here: its group is over, or Redis has lost it.
if not head then return {'gone'} end
if finished == '1' then return {'finished'} end
local news = 4 + tonumber(ARGV[4])
call('RPUSH', journal, unpack(ARGV, news + 1))
if ARGV[2] ~= '' then
  call('LSET', journal, 0, string.format('%d %s 0', attempt, ARGV[2]))
  call('EXPIRE', journal, ARGV[3])
end
for i = 5, news, 2 do call('PUBLISH', ARGV[i], ARGV[i + 1]) end
return {'ok'}
