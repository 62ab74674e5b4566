-- ARGV: step, generation, now, facts of a batch and of a stale group (templates), era and serial of the account as the caller
-- knows it. Grants the step's batch, or finds the one granted before. Of each group it answers the seq and the number of
-- trajectories; then how far the account has come, and the batch's digest.
--> ok granted_now:int version:int groups:pairs mark:ints digest:text
--> unconfirmed why:text
--> not-ready need:int counts:counts missing:int
--> fenced generation:int
--> not-retained oldest:int
--> batch-lost next:int
--> run-over why:text
--> run-lost why:text
--> run-over why:text steps:int
--> out-of-order next:int granted:int
local doubtful = doubt(ARGV[6], ARGV[7])
if doubtful then return {'unconfirmed', doubtful} end
local k, generation = tonumber(ARGV[1]), int('generation')
if tonumber(ARGV[2]) ~= generation then return {'fenced', generation} end

local function batch(seqs, fresh)
  local out = {}
  for _, seq in ipairs(seqs) do
    out[#out + 1] = seq
    out[#out + 1] = call('HGET', group(seq), 'traj')
  end
  local of = call('HMGET', step_key(k), 'version', 'digest')
  return {'ok', fresh, tonumber(of[1]), out, mark(), of[2] or ''}
end

local granted, next_step = int('granted'), int('next')
if k < int('oldest') then return {'not-retained', int('oldest')} end
local lost = k < granted and call('HGET', step_key(k), 'lost')
if lost == '1' then return {'batch-lost', next_step} end
if k < granted and not lost then
  local seqs = groups_of(k)
  if whole(seqs) then return batch(seqs, 0) end
  if k >= next_step then
    for _, seq in ipairs(seqs) do drop(seq, 'claimed', 'lost', fill(ARGV[5], {seq = seq, code = 'lost'})) end
    lose_batch(k, generation, ARGV[3])
    advance()
  end
  return {'batch-lost', next_step}
end
if k >= int('steps') then return {'run-over', 'steps', int('steps')} end
if int('over') == 1 then
  local status = cjson.decode(call('HGET', run, 'status'))
  -- A trainer that is told "over" ends as if all was done, and nobody trains when the run goes on.
  if status.state == 'lost' then return {'run-lost', status.reason or ''} end
  return {'run-over', 'ended'}
end
if k > granted or k > next_step + 1 then return {'out-of-order', next_step, granted} end

-- instant is a stamp as seconds and nanoseconds.
local function instant(stamp)
  local y, m, d, hour, minute, second, rest = string.match(stamp, '^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)%.?(%d*)Z$')
  if not y then return nil end
  y, m = tonumber(y), tonumber(m)
  if m <= 2 then y, m = y - 1, m + 12 end -- years that begin in March
  local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400) + math.floor((153 * (m - 3) + 2) / 5) + d
  return days * 86400 + hour * 3600 + minute * 60 + second, tonumber(string.sub(rest .. '000000000', 1, 9))
end

-- seconds is the time from one stamp to a later one; 0 if it is not later.
local function seconds(from, to)
  local s, ns = instant(from)
  local until_s, until_ns = instant(to)
  if not s or not until_s then return 0 end
  s, ns = until_s - s, until_ns - ns
  if ns < 0 then s, ns = s - 1, ns + 1000000000 end
  return math.max(0, s + ns / 1000000000)
end

-- room reports whether the run may launch more than a batch needs: a group of the mean size would fit.
local function room()
  local most, mean = int('max_bytes'), mean_bytes()
  return most == 0 or mean > 0 and int('bytes') + mean <= most
end

-- needed is how many groups must be ready: for the first batch as many as the prefill, unless no more will come.
local function needed(size)
  if granted > 0 then return size end
  local playing = call('ZCARD', base .. 'queued') + call('ZCARD', base .. 'in_flight')
  if playing == 0 and not room() then return size end
  return math.max(size, int('first'))
end

-- A group may be trained on up to max_staleness versions after its oldest turn, or, while it is played, after the version
-- it was launched with. spare is how many of these are left when the steps claimed before are completed. A run that waits
-- counts on one version per step: before a batch, as many as there are steps before it.
local late = int('version') + k - next_step - int('max_staleness')
local function spare(seq, field)
  return math.max(0, tonumber(call('HGET', group(seq), field) or '0') - late)
end

-- awaited is how many groups in play the batch must wait for, so that none becomes too stale: of those with j versions to
-- spare or fewer, no more may stay behind than j batches can take. It never waits for more than fit into the batch.
local function awaited(ready, size)
  local some, all = {}, {}
  for _, seq in ipairs(ready) do
    local j = spare(seq, 'min')
    some[j], all[j] = (some[j] or 0) + 1, (all[j] or 0) + 1
  end
  for _, state in ipairs({'queued', 'in_flight'}) do
    for _, seq in ipairs(call('ZRANGE', base .. state, 0, -1)) do
      local j = spare(seq, 'from')
      all[j] = (all[j] or 0) + 1
    end
  end
  local spares, missing, here, total = {}, 0, 0, 0
  for j in pairs(all) do spares[#spares + 1] = j end
  table.sort(spares)
  for _, j in ipairs(spares) do
    here, total = here + (some[j] or 0), total + all[j]
    missing = math.max(missing, math.min(size, total - j * size) - here)
  end
  return missing
end

-- sort_by sorts groups by a number that is kept of each, and those with the same one as they were.
local function sort_by(field, seqs)
  local number, place = {}, {}
  for i, seq in ipairs(seqs) do
    number[seq] = tonumber(call('HGET', group(seq), field) or '0')
    place[seq] = i
  end
  table.sort(seqs, function(a, b)
    if number[a] ~= number[b] then return number[a] < number[b] end
    return place[a] < place[b]
  end)
end

call('HSETNX', run, 'asked', ARGV[3])
local polled = call('HGET', run, 'polled')
if not polled or string.sub(polled, 1, 19) ~= string.sub(ARGV[3], 1, 19) then -- a write per second, not per look
  call('HSET', run, 'polled', ARGV[3])
end
sweep(ARGV[5])
local before = counts()
local size = int('groups_per_step')
local need = needed(size)
local ready = call('ZRANGE', base .. 'ready', 0, -1)
if #ready < need then return {'not-ready', need, before, 0} end
if call('HGET', run, 'order') == 'finish' then sort_by('nth', ready) end
if call('HGET', run, 'on_stale') == 'wait' then
  local missing = awaited(ready, size)
  if missing > 0 then return {'not-ready', need, before, missing} end
  sort_by('min', ready)
end
local seqs = {unpack(ready, 1, size)} -- in launch order, whichever they are
table.sort(seqs, function(a, b) return tonumber(a) < tonumber(b) end)

-- The step's own account of its batch, and the fact about it.
local filled = grant(k, seqs, generation, call('HGET', run, 'asked'), ARGV[3], before, int('version'))
filled.starved = number(seconds(call('HGET', run, 'asked'), ARGV[3]))
tell(fill(ARGV[4], filled))
call('HDEL', run, 'asked', 'polled')
call('HSET', run, 'granted', math.max(granted, k + 1), 'heard', ARGV[3])
advance()
changed()
return batch(seqs, 1)
