-- What the scripts of a game's journal begin with. KEYS[1] is the journal, a list: first its head, "attempt phases
-- finished", then its records. It is in the game's own hash slot, and no other script touches it. ARGV[1] is the attempt.
local call, journal, attempt = redis.call, KEYS[1], tonumber(ARGV[1])
local last, phases, finished
local head = call('LINDEX', journal, 0)
if head then
  last, phases, finished = string.match(head, '^(%d+) (%d+) (%d)$')
  last = tonumber(last)
  if attempt < last then return {'attempt', last} end
end
