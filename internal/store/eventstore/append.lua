-- What every script has that writes events: the store's own, and those of buffer and fleet, whose facts are written by
-- the script that makes them true. base is where the keys of the scope begin. BOUNDS and RECENT come before.
--
--   events       stream: the latest events of any kind: kind, json, n
--   facts:KIND   stream: the facts of one kind, under the ids that they have in events: json, n
--   kinds        set: the kinds of facts that there are
--   written      hash: f and s (facts and samples written so far), first and last (their ids)
--   told         sorted set: ids of the latest facts that tell_once told
--
-- n is f or s and the event's number among the facts or samples of the scope. A reader that finds a number missing
-- knows how many events it has missed.
local MAX_TOLD = 1024

local function write_event(flag, kind, json)
  local n = flag .. redis.call('HINCRBY', base .. 'written', flag, 1)
  local id = redis.call('XADD', base .. 'events', 'MAXLEN', '~', RECENT, '*', 'kind', kind, 'json', json, 'n', n)
  redis.call('HSETNX', base .. 'written', 'first', id)
  redis.call('HSET', base .. 'written', 'last', id)
  if flag == 'f' then
    redis.call('SADD', base .. 'kinds', kind)
    redis.call('XADD', base .. 'facts:' .. kind, 'MAXLEN', '~', BOUNDS[kind] or BOUNDS[''], id, 'json', json, 'n', n)
  end
end

-- tell writes a fact as telemetry.Encode made it; '' writes nothing.
local function tell(json)
  if json and json ~= '' then write_event('f', string.match(json, '^{"kind":"([^"]+)"'), json) end
end

-- tell_once writes a fact unless one of the latest has its id, and reports whether it did: a call that is repeated,
-- because its answer was lost, tells nothing twice.
local function tell_once(json)
  if not json or json == '' then return false end
  local id = string.match(json, '"event_id":"([^"]*)"')
  local told = base .. 'told'
  if redis.call('ZADD', told, 'NX', tonumber(redis.call('HGET', base .. 'written', 'f') or '0'), id) == 0 then
    return false
  end
  local over = redis.call('ZCARD', told) - MAX_TOLD
  if over >= 64 then redis.call('ZREMRANGEBYRANK', told, 0, over - 1) end
  tell(json)
  return true
end

-- fill puts values into the holes of an event that was made with telemetry.Holes.
local function fill(template, values)
  return (string.gsub(template, '\1([^\2]*)\2', values))
end
