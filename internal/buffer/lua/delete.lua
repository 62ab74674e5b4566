-- Every key of a run can be told from its own records; nothing is scanned for.
for _, state in ipairs({'queued', 'inflight', 'ready', 'claimed'}) do
  for _, seq in ipairs(call('ZRANGE', base .. state, 0, -1)) do forget(seq) end
  call('DEL', base .. state)
end
for k = 0, int('granted') - 1 do
  for _, seq in ipairs(groups_of(k)) do forget(seq) end
  call('DEL', step_key(k))
end
call('DEL', run, base .. 'trained', base .. 'dropped', base .. 'codes', base .. 'drops', base .. 'departures')
return {'ok'}
