-- overtaken says whether a later attempt plays the game. What an earlier one knows of it may be void.
local function overtaken(game, attempt)
  return tonumber(attempt) < tonumber(redis.call('HGET', game, 'attempt') or '0')
end

-- standing is how a game stands, in JSON: names and values of the time, of whether a program holds it, and of its
-- fields but for its scenario, which its worker knows.
local function standing(open, game, name, now)
  local ends, all = redis.call('ZSCORE', open, name), redis.call('HGETALL', game)
  local fields = {'now', string.format('%.0f', now), 'held', ends and tonumber(ends) > now and 'yes' or ''}
  for i = 1, #all, 2 do
    if all[i] ~= 'scenario' then
      fields[#fields + 1] = all[i]
      fields[#fields + 1] = all[i + 1]
    end
  end
  return cjson.encode(fields)
end
