-- Shared by the scripts that grant batches.

-- number is a value as JSON has it, with all its digits.
local function number(x) return string.format('%.17g', x) end

-- digest_of tells batches apart by their groups and what is stored of each. What an earlier version committed has no sum:
-- its size stands for it.
local function digest_of(seqs)
  local sums = {}
  for _, seq in ipairs(seqs) do
    local of = call('HMGET', group(seq), 'sum', 'bytes')
    sums[#sums + 1] = seq .. ':' .. (of[1] or of[2] or '')
  end
  return redis.sha1hex(table.concat(sums, ' '))
end

-- grant makes ready groups, in the order of their launch, the batch of a step, of which the trainer is told a version.
-- before is the counts just before. It answers what the fact that tells of it is filled with.
local function grant(k, seqs, epoch, asked, at, before, version)
  local digest = digest_of(seqs)
  local views, trajectories, oldest, newest, behind, in_flight, flat = {}, 0, nil, nil, 0, 0, 0
  for _, seq in ipairs(seqs) do
    local of = call('HMGET', group(seq), 'view', 'traj', 'min', 'at', 'flat')
    views[#views + 1] = of[1]
    trajectories = trajectories + tonumber(of[2])
    local stale = version - tonumber(of[3])
    oldest, newest, behind = math.max(oldest or stale, stale), math.min(newest or stale, stale), behind + stale
    in_flight = in_flight + tonumber(of[4] or of[3]) - tonumber(of[3])
    flat = flat + tonumber(of[5] or '0')
    move(seq, 'ready', 'claimed')
    call('HDEL', group(seq), 'view')
  end
  call('HDEL', step_key(k), 'lost', 'lost_record')
  call('HSET', step_key(k), 'seqs', table.concat(seqs, ' '), 'epoch', epoch,
    'asked', asked, 'granted', at, 'counts', table.concat(before, ' '),
    'version', version, 'depth', int('depth'), 'groups_per_step', int('groups_per_step'),
    'traj', trajectories, 'stale', table.concat({newest, oldest, behind, in_flight}, ' '), 'flat', flat,
    'views', '[' .. table.concat(views, ',') .. ']', 'digest', digest)
  return {
    queued = before[1], inflight = before[2], ready = before[3], claimed = before[4],
    completed = before[5], dropped = before[6], bytes = string.format('%.0f', before[7]),
    in_flight_mean = number(in_flight / #seqs), in_buffer_mean = number((behind - in_flight) / #seqs), flat = flat,
  }
end
