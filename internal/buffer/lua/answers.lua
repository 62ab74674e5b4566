-- ARGV: seq, sample. Answers each agent with its answer.
--> ok answers:pairs
local prefix, out = 't' .. ARGV[2] .. '/', {}
for _, field in ipairs(call('HKEYS', games(ARGV[1]))) do
  if string.sub(field, 1, #prefix) == prefix then
    out[#out + 1] = string.sub(field, #prefix + 1)
    out[#out + 1] = call('HGET', games(ARGV[1]), field)
  end
end
return {'ok', out}
