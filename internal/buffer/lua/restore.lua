-- ARGV: next, version, launched, epoch, then facts. Only a run that has granted nothing since it was opened can be restored.
--> ok restored:int
if int('granted') > 0 then return {'ok', 0} end
call('HSET', run, 'next', ARGV[1], 'granted', ARGV[1], 'oldest', ARGV[1])
if tonumber(ARGV[2]) > int('version') then call('HSET', run, 'version', ARGV[2]) end
call('HSET', run, 'forgotten', ARGV[3])
if tonumber(ARGV[3]) - 1 > int('highest') then call('HSET', run, 'highest', ARGV[3] - 1) end
if tonumber(ARGV[4]) > int('epoch') then call('HSET', run, 'epoch', ARGV[4]) end
call('HSET', run, 'era', math.max(int('era') + 1, tonumber(ARGV[4])), 'confirmed', replication_id())
for i = 5, #ARGV do tell_once(ARGV[i]) end
return {'ok', 1}
