-- ARGV: spec, its hash, least generation, 1 if the run is new or 0 if its account is in doubt, limits. A run that is known
-- is left as it is and answers its hash.
--> ok opened:int
--> ok opened:int hash:text
--> run-over
if call('EXISTS', base .. 'gone') == 1 then return {'run-over'} end
if call('HEXISTS', run, 'spec') == 1 then return {'ok', 0, call('HGET', run, 'spec_hash')} end
call('HSET', run, 'spec', ARGV[1], 'spec_hash', ARGV[2], 'highest', -1, 'generation', ARGV[3],
  'starved', '{"revision":0}', 'era', 1, 'confirmed', ARGV[4] == '1' and replication_id() or 'nobody')
set_limits(5)
return {'ok', 1}
