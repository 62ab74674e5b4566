-- Shared by the scripts that grant batches.

-- number is a value as JSON has it, with all its digits.
local function number(x) return string.format('%.17g', x) end

-- digest_of distinguishes batches by their groups and their stored data.
local function digest_of(seqs)
  local sums = {}
  for _, seq in ipairs(seqs) do
    sums[#sums + 1] = seq .. ':' .. call('HGET', group(seq), 'sum')
  end
  return redis.sha1hex(table.concat(sums, ' '))
end

-- grant makes ready groups, in launch order, the batch of a step; version is the one the trainer is told. before holds
-- the counts just before. It returns the values for the fact's template.
local function grant(k, seqs, generation, asked, at, before, version)
  local digest = digest_of(seqs)
  local views, trajectories, oldest, newest, behind, in_flight, zero_variance = {}, 0, nil, nil, 0, 0, 0
  for _, seq in ipairs(seqs) do
    local of = call('HMGET', group(seq), 'view', 'traj', 'min', 'at', 'zero_variance')
    views[#views + 1] = of[1]
    trajectories = trajectories + tonumber(of[2])
    local stale = version - tonumber(of[3])
    oldest, newest, behind = math.max(oldest or stale, stale), math.min(newest or stale, stale), behind + stale
    in_flight = in_flight + tonumber(of[4]) - tonumber(of[3])
    zero_variance = zero_variance + tonumber(of[5])
    move(seq, 'ready', 'claimed')
    call('HDEL', group(seq), 'view')
  end
  call('HDEL', step_key(k), 'lost', 'lost_record', 'results')
  call('HSET', step_key(k), 'seqs', table.concat(seqs, ' '), 'generation', generation,
    'asked', asked, 'granted', at, 'counts', table.concat(before, ' '),
    'version', version, 'depth', int('depth'), 'groups_per_step', int('groups_per_step'),
    'traj', trajectories, 'drops', table.concat(call('HGETALL', base .. 'drops'), ' '),
    'stale', table.concat({newest, oldest, behind, in_flight}, ' '), 'zero_variance', zero_variance,
    'views', '[' .. table.concat(views, ',') .. ']', 'digest', digest)
  return {
    queued = before[1], in_flight = before[2], ready = before[3], claimed = before[4],
    completed = before[5], dropped = before[6], bytes = string.format('%.0f', before[7]),
    in_flight_mean = number(in_flight / #seqs), in_buffer_mean = number((behind - in_flight) / #seqs), zero_variance = zero_variance,
  }
end
