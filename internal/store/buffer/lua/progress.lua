-- Answers of each group its seq, when it was launched, and {sample, attempt, phases, finished, ...}, the phases as far as
-- this account was told. A field of games:N is a letter and a sample.
--> ok queued:list in_flight:list
local function all(state)
  local out = {}
  for _, seq in ipairs(call('ZRANGE', base .. state, 0, -1)) do
    local saved = {}
    for _, field in ipairs(call('HKEYS', games(seq))) do
      if string.sub(field, 1, 1) == 'a' then
        local sample = string.sub(field, 2)
        saved[#saved + 1] = sample
        saved[#saved + 1] = call('HGET', games(seq), field)
        saved[#saved + 1] = call('HGET', games(seq), 'p' .. sample) or '0'
        saved[#saved + 1] = call('HEXISTS', games(seq), 'e' .. sample)
      end
    end
    out[#out + 1] = {seq, call('HGET', group(seq), 'launched') or '', saved}
  end
  return out
end
return {'ok', all('queued'), all('in_flight')}
