-- Adds to a run's counts what a worker's have grown by since it was last heard of, and keeps the worker's. A worker
-- that was forgotten meanwhile is continued from the counts that it says were taken before. A count that fell began
-- again. KEYS: counts, mark of a deleted run. ARGV: worker, before, now.
--
--   counts   hash: 'worker/ID', JSON of the worker's counts; 'N/PART' for N from 1 to 4: input, output and cached
--            tokens and requests that were not told of yet; since, when they were told of last, in ms
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local counts, worker = KEYS[1], 'worker/' .. ARGV[1]
local before = cjson.decode(redis.call('HGET', counts, worker) or ARGV[2])
for part, now in pairs(cjson.decode(ARGV[3])) do
  local was = before[part] or {}
  for i = 1, 4 do
    local grown = now[i] - (was[i] or 0)
    if grown < 0 then grown = now[i] end
    if grown > 0 then redis.call('HINCRBY', counts, i .. '/' .. part, string.format('%.0f', grown)) end
  end
end
redis.call('HSET', counts, worker, ARGV[3])
return 1
