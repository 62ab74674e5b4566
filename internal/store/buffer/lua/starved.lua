-- ARGV: revision that the series must have, the series, fields of steps as a count and so many pairs of step and labels,
-- then events as flag (f for a fact, s for a sample), kind and JSON. Continues the series of starvation and tells of it
-- in one: of two samplers that look at the same time, the second changes nothing.
--> ok done:int
local was = call('HGET', run, 'starved')
local revision = was and cjson.decode(was).revision or 0
if revision ~= tonumber(ARGV[1]) then return {'ok', 0} end
call('HSET', run, 'starved', ARGV[2])
local steps = tonumber(ARGV[3])
for i = 4, 3 + 2 * steps, 2 do
  local key = step_key(tonumber(ARGV[i]))
  if call('EXISTS', key) == 1 then call('HSET', key, 'starved', ARGV[i + 1]) end
end
local at = 4 + 2 * steps
for i = at, #ARGV, 3 do write_event(ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
return {'ok', 1}
