-- ARGV: spec, its hash, id of the workflow that drives the run, or '', least epoch, 1 if the run is new or 0 if its account
-- is in doubt, limits. A run that is known is left as it is and answers its hash, '' if a version without hashes opened it,
-- and its spec.
--> ok opened:int
--> ok opened:int hash:text spec:text
--> run-over
if call('EXISTS', base .. 'gone') == 1 then return {'run-over'} end
local spec = call('HGET', run, 'spec')
if spec then return {'ok', 0, call('HGET', run, 'spec_hash') or '', spec} end
call('HSET', run, 'spec', ARGV[1], 'spec_hash', ARGV[2], 'highest', -1, 'epoch', ARGV[4],
  'starved', '{"revision":0}', 'era', 1, 'confirmed', ARGV[5] == '1' and replication_id() or 'nobody')
if ARGV[3] ~= '' then call('HSET', run, 'workflow', ARGV[3]) end
set_limits(6)
return {'ok', 1}
