-- ARGV: step. Reads a granted step's batch while it is retained, and changes nothing. Of each group it answers
-- the seq and the number of trajectories.
--> ok version:int groups:pairs
--> no-such-step granted:int
--> not-retained oldest:int
--> batch-lost next:int
local k = tonumber(ARGV[1])
if k >= int('granted') then return {'no-such-step', int('granted')} end
if k < int('oldest') then return {'not-retained', int('oldest')} end
if call('HEXISTS', step_key(k), 'lost') == 1 then return {'batch-lost', int('next')} end
if not whole(groups_of(k)) then return {'batch-lost', int('next')} end
local out = {}
for _, seq in ipairs(groups_of(k)) do
  out[#out + 1] = seq
  out[#out + 1] = call('HGET', group(seq), 'traj')
end
return {'ok', tonumber(call('HGET', step_key(k), 'version')) or 0, out}
