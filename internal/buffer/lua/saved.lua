-- ARGV: seq, sample. What an earlier version has saved of a game: phases, checkpoint or '', and each agent with its answer.
--> ok phases:int checkpoint:text answers:pairs
local prefix, out = 't' .. ARGV[2] .. '/', {}
for _, field in ipairs(call('HKEYS', games(ARGV[1]))) do
  if string.sub(field, 1, #prefix) == prefix then
    out[#out + 1] = string.sub(field, #prefix + 1)
    out[#out + 1] = call('HGET', games(ARGV[1]), field)
  end
end
local saved = call('HMGET', games(ARGV[1]), 'p' .. ARGV[2], 'c' .. ARGV[2])
return {'ok', tonumber(saved[1] or '0'), saved[2] or '', out}
