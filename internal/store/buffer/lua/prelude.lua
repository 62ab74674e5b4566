-- Shared by every script: names of keys, and the moves of a group between states. All keys of a run begin with
-- the same hash tag, so that they live in one slot of a cluster; KEYS[1] is the run's hash.
--
-- A script's lines --> declare what it may answer: a code, then values by name and kind. Only those are read from it.
--
--   run                 hash: spec, spec_hash, limits, version, generation, counters, and the steps' pointers:
--                       next (first not completed), granted (first never granted), oldest (first retained);
--                       mirrors: how many times the run had said its limits and status when it said what is known of them;
--                       forgotten: first group after those that Redis has forgotten;
--                       era, serial: of the account, see rollout.Mark; marked: the serial up to which the run's workflow
--                       knows it; confirmed: under which replication id of Redis the run has compared it last;
--                       repair: JSON of the latest repair; least_generation: of the next trainer that announces itself
--                       asked and polled: when the step that is not granted was claimed first, and last
--                       heard: when the trainer was given a batch, recorded a step or sent a heartbeat last; beats: it
--                       sends them; usual: seconds from a batch to its record, smoothed
--                       starved: how far the account of the trainer's waits has come, JSON of package starvation
--   queued in_flight ready claimed   sorted sets of groups, by launch order
--   group:N             hash: state, scenario, launched, from (version it was launched with), and once ready: min, at
--                       (version at that moment), nth (to become ready), games (its samples), traj, bytes, zero_variance, len, view, data, sum (of data); left (class of length) when completed
--   games:N             hash per sample: a (attempt), p (phases finished, as far as this account was told), e (finished: 'journal');
--                       f (when the attempt began), b (attempts held against the game), x (those excused), y (the latest of them).
--                       Of a warm-up: wa, wf, wb, wx, wy
--   spent               set: "SEQ journals SAMPLES" or "SEQ all SAMPLES": what is to be deleted of what is kept of a group's games
--                       in slots of their own: {RUN/SEQ/SAMPLE}:journal, and all: {RUN/SEQ/SAMPLE}:final, too
--   trained dropped     bitmaps of the groups that have left and keep no data
--   codes               sorted set "N code" of the latest drops; drops: hash code -> count
--   departures          hash "class code" -> groups dropped for the code, or trained, whose games were of that length
--   attempts               hash: 'n CODE', 'g CODE', 'l CODE' (attempts that failed, that were the last of their game, the latest of them), 'c NAME'
--                       (an environment's counter); failing: hash: since, 'r CODE' (attempts that failed since one succeeded)
--   alarms              hash: alarm -> since when it stands, in ms; 'raised ALARM'
--   older               hash: steps (JSON: what diagnosis keeps of the steps before to), to, verdict (what it said last)
--   dying               the hash of a run that was deleted, until the rest is purged; gone: when it was deleted
--   step:K              hash: what is known of one granted step; views is JSON, and packed once it is completed; starved is
--                       JSON: seconds that the trainer waited for it, by cause; digest: of its batch; lost: 1, its batch is
--                       gone, or again, another one may be formed; lost_record: its record is gone
--
-- What a script tells of what it does is in the streams of telemetry/store, whose append.lua comes before this.
local run = KEYS[1]
local call = redis.call

local MAX_JUMP = 16777216 -- groups: bounds the bitmaps against a wild number
local MAX_CODES = 4096
local MAX_BUCKET = 15
local MIRROR_STRIDE = 1048576 -- times that a workflow which is gone may have said more than is known
local STRIDE = 64 -- generations that a master which was cut off may give out before it hears of the next one

local function int(field) return tonumber(call('HGET', run, field) or '0') end
local function group(seq) return base .. 'group:' .. seq end
local function games(seq) return base .. 'games:' .. seq end
local function step_key(k) return base .. 'step:' .. string.format('%d', k) end

-- groups_of lists the groups of a granted step, in launch order.
local function groups_of(k)
  local seqs = {}
  for seq in string.gmatch(call('HGET', step_key(k), 'seqs') or '', '%d+') do seqs[#seqs + 1] = seq end
  return seqs
end

-- replication_id names the history of Redis that the data belong to: it changes with each restart, promotion of a
-- replica and resynchronisation. '' where Redis hides it.
local function replication_id()
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return '' end
  return string.match(info, 'master_replid:(%x+)') or ''
end

-- doubt is why the account may be older than what trainers were told, or nil. era and serial are the latest that the
-- caller knows; era 0: no run has confirmed the account. The account of an ended run is not compared: it gives out
-- nothing new.
local function doubt(era, serial)
  if int('over') == 1 then return nil end
  era, serial = tonumber(era), tonumber(serial)
  if int('era') < era or era > 0 and int('era') == era and int('serial') < serial then return 'behind' end
  local confirmed = call('HGET', run, 'confirmed')
  if confirmed and confirmed ~= replication_id() then return 'replaced' end
  return nil
end

-- mark is how far the account has come: era, serial, the serial that the workflow knows, generation, granted, next, version.
local function mark()
  return {int('era'), int('serial'), int('marked'), int('generation'), int('granted'), int('next'), int('version')}
end

-- advance raises the serial: trainers are told something that must not be forgotten.
local function advance() call('HINCRBY', run, 'serial', 1) end

local function counts()
  return {
    call('ZCARD', base .. 'queued'), call('ZCARD', base .. 'in_flight'),
    call('ZCARD', base .. 'ready'), call('ZCARD', base .. 'claimed'),
    int('completed'), int('dropped'), int('bytes'),
  }
end

local function drop_code(seq)
  local found = call('ZRANGEBYSCORE', base .. 'codes', seq, seq)
  if #found == 0 then return 'dropped' end
  return string.match(found[1], '^%d+ (.*)$')
end

-- state_of is a group's state, or nil when it is not known, and the code of a dropped one.
local function state_of(seq)
  local state = call('HGET', group(seq), 'state')
  if state then return state end
  if call('GETBIT', base .. 'trained', seq) == 1 then return 'trained' end
  if call('GETBIT', base .. 'dropped', seq) == 1 then return 'dropped', drop_code(seq) end
  return nil
end

-- changed wakes callers that wait for a batch. It is only a hint: those who miss it look later by themselves, and a
-- Redis that forbids publishing is no reason to fail.
local published = false
local function changed()
  if published then return end
  published = true
  local prefix, id = string.match(base, '^(.*):{(.*)}:$')
  redis.pcall('PUBLISH', prefix .. ':changed', id)
end

local function known_range(seq) return tonumber(seq) - int('highest') <= MAX_JUMP end

-- move takes a group from one of the four sets, or from nowhere, to another.
local function move(seq, from, to)
  if from then
    call('ZREM', base .. from, seq)
  else
    call('HINCRBY', run, 'launched', 1)
    if tonumber(seq) > int('highest') then call('HSET', run, 'highest', seq) end
  end
  call('ZADD', base .. to, seq, seq)
  call('HSET', group(seq), 'state', to)
end

-- bucket is the class of a length: 0, 1, 2-3, 4-7 and so on, doubling.
local function bucket(length)
  local b, least = 0, 1
  while length >= least and b < MAX_BUCKET do
    b = b + 1
    least = least * 2
  end
  return b
end

-- length is the mean number of phases of a group's games, as committed or as far as they have come.
local function length(seq)
  local known = call('HGET', group(seq), 'len')
  if known then return tonumber(known) end
  local begun, phases = 0, 0
  for _, field in ipairs(call('HKEYS', games(seq))) do
    if string.sub(field, 1, 1) == 'p' then
      begun, phases = begun + 1, phases + tonumber(call('HGET', games(seq), field))
    end
  end
  if begun == 0 then return 0 end
  return math.floor(phases / begun + 0.5)
end

-- depart counts a group that leaves, and answers the class that it was counted in.
local function depart(seq, code)
  local b = bucket(length(seq))
  call('HINCRBY', base .. 'departures', b .. ' ' .. code, 1)
  return b
end

-- samples lists the games of a group that have begun, with spaces between them.
local function samples(seq)
  local known = call('HGET', group(seq), 'games')
  if known then return known end
  local out = {}
  for _, field in ipairs(call('HKEYS', games(seq))) do
    local sample = string.match(field, '^a(%d+)$')
    if sample then out[#out + 1] = sample end
  end
  table.sort(out)
  return table.concat(out, ' ')
end

-- spend has a group's data in other slots deleted: all of it, or the journals. A script cannot, because they are other
-- slots.
local function spend(seq, what)
  local of = samples(seq)
  if of ~= '' then call('SADD', base .. 'spent', string.format('%s %s %s', seq, what, of)) end
end

local function forget(seq)
  spend(seq, 'all')
  local bytes = tonumber(call('HGET', group(seq), 'bytes') or '0')
  if bytes > 0 then call('HINCRBY', run, 'bytes', -bytes) end
  call('DEL', group(seq), games(seq))
end

-- drop drops a group that is in one of the sets, or one never heard of, which can then not come late. fact is the
-- template of its fact.
local function drop(seq, state, code, fact)
  if state then
    call('ZREM', base .. state, seq)
  else
    call('HINCRBY', run, 'launched', 1)
    if tonumber(seq) > int('highest') then call('HSET', run, 'highest', seq) end
  end
  depart(seq, code)
  forget(seq)
  call('SETBIT', base .. 'dropped', seq, 1)
  call('HINCRBY', run, 'dropped', 1)
  call('HINCRBY', base .. 'drops', code, 1)
  call('ZADD', base .. 'codes', seq, seq .. ' ' .. code)
  call('ZREMRANGEBYRANK', base .. 'codes', 0, -MAX_CODES - 1)
  tell(fact)
  changed()
end

-- whole reports whether Redis has all groups of a batch. One key may be gone alone: evicted, or deleted by hand.
local function whole(seqs)
  for _, seq in ipairs(seqs) do
    if call('HEXISTS', group(seq), 'data') == 0 then return false end
  end
  return true
end

-- lose_batch marks a step's batch as gone: another one is formed only for a trainer that goes back.
local function lose_batch(k, generation, at)
  call('DEL', step_key(k))
  call('HSET', step_key(k), 'lost', 1, 'generation', generation, 'granted', at, 'asked', at)
end

-- oldest_fresh is the oldest policy version that may still be trained on.
local function oldest_fresh()
  if call('HGET', run, 'on_stale') ~= 'drop' then return 0 end
  return int('version') - int('max_staleness')
end

-- sweep drops the ready groups that are too stale, or whose hash Redis has lost; fact is the template of what tells of one.
local function sweep(fact)
  local fresh = oldest_fresh()
  for _, seq in ipairs(call('ZRANGE', base .. 'ready', 0, -1)) do
    local min = call('HGET', group(seq), 'min')
    local code = not min and 'lost' or tonumber(min) < fresh and 'stale'
    if code then drop(seq, 'ready', code, fill(fact, {seq = seq, code = code})) end
  end
end

-- mean_bytes is the mean stored size of the groups committed so far; 0: none was.
local function mean_bytes()
  local committed = int('commits')
  if committed == 0 then return 0 end
  return math.floor(int('committed_bytes') / committed)
end

-- supersede has all that was said of the run come late from now on.
local function supersede() call('HINCRBY', run, 'mirrors', MIRROR_STRIDE) end

-- news reports whether what the run said for the nth time is not older than what is known of it, and remembers n. Below 0 another says
-- it, in the place of a workflow that is gone.
local function news(n)
  n = tonumber(n)
  if n < 0 then supersede() end
  if n >= 0 and n < int('mirrors') then return false end
  if n > 0 then call('HSET', run, 'mirrors', n) end
  return true
end

-- set_limits takes the limits from the arguments, names and values: every key of the spec's buffer, steps, and first, the
-- groups that must be ready before the first claim.
local function set_limits(from)
  for i = from, #ARGV, 2 do call('HSET', run, ARGV[i], ARGV[i + 1]) end
end
