-- ARGV: step, epoch, now. Grants the step's batch, or finds the one granted before. Answers
-- {'ok', granted now, version, swept, {seq, trajectories, ...}}.
if call('EXISTS', run) == 0 then return {'no-such-run'} end
local k, epoch = tonumber(ARGV[1]), int('epoch')
if tonumber(ARGV[2]) ~= epoch then return {'fenced', epoch} end

local function batch(seqs, fresh, swept)
  local out = {}
  for _, seq in ipairs(seqs) do
    out[#out + 1] = seq
    out[#out + 1] = call('HGET', group(seq), 'traj')
  end
  return {'ok', fresh, tonumber(call('HGET', step_key(k), 'version')), swept, out}
end

local granted, next_step = int('granted'), int('next')
if k < int('oldest') then return {'not-retained', int('oldest')} end
if k < granted then
  return batch(groups_of(k), 0, {})
end
if k >= int('steps') then return {'run-over', 'steps', int('steps')} end
if int('over') == 1 then return {'run-over', 'ended'} end
if k > granted or k > next_step + 1 then return {'out-of-order', next_step, granted} end

-- room tells whether the run may launch more than a batch needs: a group of the mean size would fit.
local function room()
  local most, mean = int('max_bytes'), mean_bytes()
  return most == 0 or mean > 0 and int('bytes') + mean <= most
end

-- needed is how many groups must be ready: for the first batch as many as the prefill, unless no more will come.
local function needed(size)
  if granted > 0 then return size end
  local playing = call('ZCARD', base .. 'queued') + call('ZCARD', base .. 'inflight')
  if playing == 0 and not room() then return size end
  return math.max(size, int('first'))
end

call('HSETNX', run, 'asked', ARGV[3])
local swept = sweep()
local before = counts()
local size = int('groups_per_step')
local need = needed(size)
if call('ZCARD', base .. 'ready') < need then return {'not-ready', need, before, swept} end
local seqs = call('ZRANGE', base .. 'ready', 0, size - 1)

local views, trajectories, oldest, newest, behind = {}, 0, nil, nil, 0
for _, seq in ipairs(seqs) do
  local of = call('HMGET', group(seq), 'view', 'traj', 'min')
  views[#views + 1] = of[1]
  trajectories = trajectories + tonumber(of[2])
  local stale = int('version') - tonumber(of[3])
  oldest, newest, behind = math.max(oldest or stale, stale), math.min(newest or stale, stale), behind + stale
  move(seq, 'ready', 'claimed')
  call('HDEL', group(seq), 'view')
end
call('HSET', step_key(k), 'seqs', table.concat(seqs, ' '), 'epoch', epoch,
  'asked', call('HGET', run, 'asked'), 'granted', ARGV[3], 'counts', table.concat(before, ' '),
  'version', int('version'), 'depth', int('depth'), 'groups_per_step', size,
  'traj', trajectories, 'stale', table.concat({newest, oldest, behind}, ' '), 'views', '[' .. table.concat(views, ',') .. ']')
call('HDEL', run, 'asked')
call('HSET', run, 'granted', k + 1)
return batch(seqs, 1, swept)
