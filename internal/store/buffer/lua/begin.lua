-- ARGV: seq, sample or 'warm-up', started (microseconds), attempt. An attempt that has begun keeps earlier ones from
-- saving. One that started later wins: attempts are counted again when somebody resets an activity or its workflow.
-- Answers the attempt's number in the order of all, how many are held against the game, and how many were excused; or
-- that it is finished.
--> ok number:int attempts:int excused:int finished:text
--> fenced why:text
--> fenced why:text attempt:int
local seq, sample, started, attempt = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if not known_range(seq) then return {'invalid'} end
local state = state_of(seq)
if state and state ~= 'queued' and state ~= 'in_flight' then return {'fenced', state} end
local prefix = ''
if sample == 'warm-up' then prefix, sample = 'w', '' end
local number, since = prefix .. 'a' .. sample, prefix .. 'f' .. sample
local attempts, excused = prefix .. 'b' .. sample, prefix .. 'x' .. sample
local old = call('HMGET', games(seq), number, since, attempts, excused, prefix .. 'e' .. sample)
if old[5] then return {'ok', 0, 0, 0, 'finished'} end
local last = tonumber(old[1] or '0')
local before, nth = 0, 0
if old[2] then
  before, nth = string.match(old[2], '^(%d+) (%d+)$')
  before, nth = tonumber(before), tonumber(nth)
end
if started < before or started == before and attempt < nth then return {'fenced', 'attempt', last} end
if started ~= before or attempt ~= nth then
  if last < attempt then last = attempt else last = last + 1 end
  call('HSET', games(seq), number, last, since, string.format('%.0f %d', started, attempt))
  if not old[3] then call('HSET', games(seq), attempts, math.max(tonumber(old[1] or '0'), attempt - 1)) end
  call('HINCRBY', games(seq), attempts, 1)
end
return {'ok', last, tonumber(call('HGET', games(seq), attempts) or '0'), tonumber(old[4] or '0'), ''}
