-- ARGV: how many groups at most. What the next batch waits for: how many groups it needs, how many are ready, how many
-- are launched and not ready, and of the first of these whether each is in flight, how many of its games have begun and
-- how many are over.
--> ok need:int ready:int launched:int groups:ints
local need = int('groups_per_step')
if int('granted') == 0 then need = math.max(need, int('first')) end
local ready = call('ZCARD', base .. 'ready')
local seqs = {}
for _, state in ipairs({'queued', 'in_flight'}) do
  for _, seq in ipairs(call('ZRANGE', base .. state, 0, -1)) do
    seqs[#seqs + 1] = {tonumber(seq), state}
  end
end
table.sort(seqs, function(a, b) return a[1] < b[1] end)
local groups = {}
for i = 1, math.min(#seqs, tonumber(ARGV[1]), math.max(1, need - ready)) do
  local begun, over = 0, 0
  for _, field in ipairs(call('HKEYS', games(string.format('%d', seqs[i][1])))) do
    local letter = string.sub(field, 1, 1)
    if letter == 'a' then begun = begun + 1 elseif letter == 'e' then over = over + 1 end
  end
  groups[#groups + 1] = seqs[i][2] == 'in_flight' and 1 or 0
  groups[#groups + 1] = begun
  groups[#groups + 1] = over
end
return {'ok', need, ready, #seqs, groups}
