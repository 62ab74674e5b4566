-- ARGV: seq, code, the fact. Lets a group go that is queued, and no other; answers whether it has gone, by this call or an
-- earlier one.
--> ok gone:int
local seq, code = ARGV[1], ARGV[2]
if not known_range(seq) then return {'invalid'} end
local state, dropped_for = state_of(seq)
if state == 'queued' then
  drop(seq, state, code, ARGV[3])
  return {'ok', 1}
end
return {'ok', dropped_for == code and 1 or 0}
