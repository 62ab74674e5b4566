-- standing is how a game stands, in JSON: the time, when its lease ends, and its fields, without its scenario, which its
-- worker knows.
local function standing(open, game, name, now)
  local ends, all, fields = redis.call('ZSCORE', open, name), redis.call('HGETALL', game), {}
  for i = 1, #all, 2 do
    if all[i] ~= 'scenario' then
      fields[#fields + 1] = all[i]
      fields[#fields + 1] = all[i + 1]
    end
  end
  return cjson.encode({now = now, ends = ends and math.floor(tonumber(ends)) or 0, fields = fields})
end
