-- ARGV: attempt, seconds that it is kept after. Keeps lower attempts from writing; answers the records so far.
if not head then
  call('RPUSH', journal, ARGV[1] .. ' 0 0')
  call('EXPIRE', journal, ARGV[2])
  return {'ok', {}}
end
call('LSET', journal, 0, string.format('%d %s %s', attempt, phases, finished))
call('EXPIRE', journal, ARGV[2])
return {'ok', call('LRANGE', journal, 1, -1)}
