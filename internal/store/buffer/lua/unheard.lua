-- ARGV: seq to stop before. Answers the groups before it, of the latest MAX_UNHEARD, that were launched but whose
-- launch has not arrived yet.
--> ok groups:ints
local MAX_UNHEARD = 16384
local to, seqs = math.max(tonumber(ARGV[1]), int('highest') + 1), {}
for seq = math.max(to - MAX_UNHEARD, 0), to - 1 do
  if not state_of(seq) then seqs[#seqs + 1] = seq end
end
return {'ok', seqs}
