-- ARGV: step. Reads a granted step's batch while it is retained, and changes nothing. Answers {'ok', version, {seq, trajectories, ...}}.
if call('EXISTS', run) == 0 then return {'no-such-run'} end
local k = tonumber(ARGV[1])
if k >= int('granted') then return {'no-such-step', int('granted')} end
if k < int('oldest') then return {'not-retained', int('oldest')} end
local out = {}
for _, seq in ipairs(groups_of(k)) do
  out[#out + 1] = seq
  out[#out + 1] = call('HGET', group(seq), 'traj')
end
return {'ok', tonumber(call('HGET', step_key(k), 'version')) or 0, out}
