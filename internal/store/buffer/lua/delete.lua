-- ARGV: now and for how long it is remembered, in seconds; 1: only if it is over. Takes the run away from every other
-- script in one instant: they know a run by its hash. Answers whether there was one, and the generation of its last trainer
-- process while that is known.
--> ok found:int generation:int
if call('EXISTS', run) == 1 then
  if ARGV[3] == '1' and int('over') == 0 then return {'ok', 0, 0} end
  call('RENAME', run, base .. 'dying')
  call('SET', base .. 'gone', ARGV[1], 'EX', ARGV[2])
  changed()
end
return {'ok', call('EXISTS', base .. 'gone'), tonumber(call('HGET', base .. 'dying', 'generation') or '0')}
