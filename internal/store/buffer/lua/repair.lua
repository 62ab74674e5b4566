-- ARGV: era that it has from now on, serial, generation, version, first step not completed, first never granted, next group to
-- be launched, completed steps to retain, now, what the run knows (JSON: playing, ready, grants, terms), fact of a group that
-- leaves (template), games of a group at most. Makes an account that came back older one in which nothing is undone that trainers were
-- told: completed steps stay completed, granted ones granted, with the same batches where these survive, or lost.
-- What no workflow will finish is dropped. Answers what was found and lost, as JSON, also when it was done before.
--> ok done:int repair:text mark:ints
local MAX_LOST = 64 -- steps that are named
local MAX_RECORDS = 4096 -- steps that are marked as lost
local MAX_GROUPS = 65536 -- groups that may have left unheard
local MAX_GAMES = 65536 -- games of groups that are dropped, of which something may be left elsewhere
local era = tonumber(ARGV[1])
if int('era') >= era then return {'ok', 0, call('HGET', run, 'repair') or '{}', mark()} end
local next_step, granted, following = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local fact, known = ARGV[11], cjson.decode(ARGV[10])
local found_next, found_granted = int('next'), int('granted')
local lost_steps, lost_records, lost_groups, restored = {}, 0, 0, 0

local function name(seq) return string.format('%d', seq) end
local keep = {}
for _, seq in ipairs(known.playing) do keep[name(seq)] = 'playing' end
for _, seq in ipairs(known.ready) do keep[name(seq)] = 'ready' end
local grants = {}
for _, g in ipairs(known.grants) do
  for i, seq in ipairs(g.seqs) do g.seqs[i] = name(seq) end
  grants[g.step] = g
end

-- leave has leftovers of a group's games in other slots deleted: this account may have forgotten that they had begun.
-- It covers the latest groups alone; the journals of others expire by themselves.
local every, left = {}, 0
for sample = 0, tonumber(ARGV[12]) - 1 do every[#every + 1] = sample end
local function leave(seq)
  if #every == 0 or left + #every > MAX_GAMES then return end
  left = left + #every
  call('SADD', base .. 'spent', string.format('%s all %s', seq, table.concat(every, ' ')))
end

-- lose drops a group that is in the account or was never heard of.
local function lose(seq)
  local state = state_of(seq)
  if state == 'trained' or state == 'dropped' or state == 'completed' then return end
  drop(seq, state, 'lost', fill(fact, {seq = seq, code = 'lost'}))
  leave(seq)
  lost_groups = lost_groups + 1
end

-- A master that was cut off goes on counting generations, which must not be those of this account.
call('HSET', run, 'generation', math.max(int('generation'), tonumber(ARGV[3])) + STRIDE)
if tonumber(ARGV[4]) > int('version') then call('HSET', run, 'version', ARGV[4]) end

-- A group granted by both accounts but in different batches: the first batch counts, and the second is not trained on.
local from = found_granted
for k, g in pairs(grants) do
  local digest = k < found_granted and call('HGET', step_key(k), 'digest')
  if digest and (g.lost or g.digest and digest ~= g.digest) then
    for _, seq in ipairs(groups_of(k)) do
      if state_of(seq) == 'completed' then
        forget(seq)
        call('SETBIT', base .. 'trained', seq, 1)
      else
        lose(seq)
      end
    end
    call('DEL', step_key(k))
    from = math.min(from, k)
  elseif k < found_granted and call('HEXISTS', step_key(k), 'lost') == 1 then -- and was granted since
    from = math.min(from, k)
  end
end

local function survives(g)
  if not g or g.lost then return false end
  for _, seq in ipairs(g.seqs) do
    if call('HGET', group(seq), 'state') ~= 'ready' then return false end
  end
  return #g.seqs > 0 and (not g.digest or digest_of(g.seqs) == g.digest)
end

for k = math.max(from, granted - MAX_RECORDS), granted - 1 do
  if k >= found_granted or call('EXISTS', step_key(k)) == 0 or grants[k] and call('HEXISTS', step_key(k), 'lost') == 1 then
    if survives(grants[k]) then
      grant(k, grants[k].seqs, tonumber(ARGV[3]), ARGV[9], ARGV[9], counts(), grants[k].policy_version)
      restored = restored + 1
    else
      for _, seq in ipairs(grants[k] and grants[k].seqs or {}) do lose(seq) end
      lose_batch(k, ARGV[3], ARGV[9])
      lost_steps[#lost_steps + 1] = k
    end
  end
end
granted = math.max(granted, found_granted)
next_step = math.min(next_step, granted)
local first = math.max(math.min(from, found_next, next_step), granted - MAX_RECORDS)
for k = first, granted - 1 do
  local done = k < next_step
  for _, seq in ipairs(groups_of(k)) do
    local state = call('HGET', group(seq), 'state')
    if done and state == 'claimed' then
      call('ZREM', base .. 'claimed', seq)
      call('HSET', group(seq), 'state', 'completed', 'left', depart(seq, 'trained'))
      call('HINCRBY', run, 'completed', 1)
    elseif not done and state == 'completed' then -- a trainer had gone back
      call('ZADD', base .. 'claimed', seq, seq)
      call('HSET', group(seq), 'state', 'claimed')
      call('HINCRBY', run, 'completed', -1)
      local left = call('HGET', group(seq), 'left')
      if left then
        call('HINCRBY', base .. 'departures', left .. ' trained', -1)
        call('HDEL', group(seq), 'left')
      end
    end
  end
  if not done then
    call('HDEL', step_key(k), 'report', 'fleet', 'engines', 'completed', 'done', 'lost_record')
  elseif call('HEXISTS', step_key(k), 'done') == 0 then
    call('HSET', step_key(k), 'completed', ARGV[9], 'done', 1, 'lost_record', 1)
    lost_records = lost_records + 1
  end
end
-- A record of before a trainer went back is not the one that was made after it.
for _, t in ipairs(known.terms) do
  for k = math.max(t.from, next_step - MAX_RECORDS), next_step - 1 do
    local of = call('HMGET', step_key(k), 'generation', 'done', 'lost_record')
    if of[2] and not of[3] and tonumber(of[1] or '0') < t.generation then
      call('HDEL', step_key(k), 'report', 'fleet', 'engines')
      call('HSET', step_key(k), 'lost_record', 1)
      lost_records = lost_records + 1
    end
  end
end
local oldest = int('oldest')
while oldest < next_step - tonumber(ARGV[8]) do
  for _, seq in ipairs(groups_of(oldest)) do
    forget(seq)
    call('SETBIT', base .. 'trained', seq, 1)
  end
  oldest = oldest + 1
end

-- Groups whose workflows are over never come again, and one that was trained on must not come late.
for _, state in ipairs({'queued', 'in_flight', 'ready'}) do
  for _, seq in ipairs(call('ZRANGE', base .. state, 0, -1)) do
    if not keep[seq] or keep[seq] == 'ready' and state ~= 'ready' then lose(seq) end
  end
end
local unheard = 0
for n = following - 1, math.max(0, following - MAX_GROUPS), -1 do
  local seq = name(n)
  if keep[seq] ~= 'playing' and not state_of(seq) then
    call('SETBIT', base .. 'dropped', seq, 1)
    leave(seq)
    unheard = unheard + 1
  end
end
if unheard > 0 then
  call('HINCRBY', run, 'launched', unheard)
  call('HINCRBY', run, 'dropped', unheard)
  call('HINCRBY', base .. 'drops', 'lost', unheard)
  call('HINCRBY', base .. 'departures', '0 lost', unheard)
  lost_groups = lost_groups + unheard
end
if following - 1 > int('highest') then call('HSET', run, 'highest', following - 1) end

local serial = math.max(int('serial'), tonumber(ARGV[2])) + 1
call('HSET', run, 'next', next_step, 'granted', granted, 'oldest', oldest, 'era', era, 'serial', serial,
  'marked', serial, 'confirmed', replication_id())
call('HDEL', run, 'asked', 'polled')
sweep(fact)
local named = {}
for i = math.max(1, #lost_steps - MAX_LOST + 1), #lost_steps do named[#named + 1] = lost_steps[i] end
local text = cjson.encode({found_granted = found_granted, found_completed = found_next, lost_records = lost_records,
  lost_groups = lost_groups, restored = restored, era = era})
if #named > 0 then text = string.sub(text, 1, -2) .. ',"lost_batches":' .. cjson.encode(named) .. '}' end
call('HSET', run, 'repair', text)
changed()
return {'ok', 1, text, mark()}
