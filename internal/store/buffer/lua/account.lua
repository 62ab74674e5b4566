-- ARGV: the first step whose batch is asked for, or none. Of each batch it answers the step, its groups, its digest
-- and the version that it says. refills is how many granted steps are to get other groups, because a trainer went back
-- behind their lost batches.
--> ok launched:int highest:int next:int granted:int version:int generation:int counts:counts queued:ints in_flight:ints ready:ints drops:pairs mean_bytes:int mark:ints confirmed:text replication_id:text grants:list refills:int mirrors:int
local MAX_GRANTS = 64
local function all(state) return call('ZRANGE', base .. state, 0, -1) end
local grants = {}
if ARGV[1] then
  for k = math.max(tonumber(ARGV[1]), int('granted') - MAX_GRANTS), int('granted') - 1 do
    local of = call('HMGET', step_key(k), 'seqs', 'digest', 'lost', 'version')
    if of[1] and not of[3] then grants[#grants + 1] = {k, of[1], of[2] or '', of[4] or '0'} end
  end
end
local MAX_REFILLS = 4096 -- as many steps as a repair may mark as lost
local refills = 0
for k = math.max(int('next'), int('granted') - MAX_REFILLS), int('granted') - 1 do
  if call('HGET', step_key(k), 'lost') == 'again' then refills = refills + 1 end
end
return {'ok', int('launched'), int('highest'), int('next'), int('granted'), int('version'), int('generation'),
  counts(), all('queued'), all('in_flight'), all('ready'), call('HGETALL', base .. 'drops'), mean_bytes(),
  mark(), call('HGET', run, 'confirmed') or 'never', replication_id(), grants, refills, int('mirrors')}
