-- ARGV: now in ms, the fact of an alarm that is over (template); then for each alarm: its code, how long it must last
-- before it is raised, in ms, and the fact that raises it. Answers those raised and cleared by this call. An alarm that
-- ends before it is raised leaves no trace.
--> ok raised:list ended:list
local alarms, now = base .. 'alarms', tonumber(ARGV[1])
local standing, raised, ended = {}, {}, {}
for i = 3, #ARGV, 3 do
  local code = ARGV[i]
  standing[code] = true
  call('HSETNX', alarms, code, ARGV[1])
  if now - tonumber(call('HGET', alarms, code)) >= tonumber(ARGV[i + 1]) and call('HSETNX', alarms, 'raised ' .. code, 1) == 1 then
    raised[#raised + 1] = code
    tell(ARGV[i + 2])
  end
end
for _, code in ipairs(call('HKEYS', alarms)) do
  if not standing[code] and string.sub(code, 1, 7) ~= 'raised ' then
    call('HDEL', alarms, code)
    if call('HDEL', alarms, 'raised ' .. code) == 1 then
      ended[#ended + 1] = code
      tell(fill(ARGV[2], {code = code}))
    end
  end
end
return {'ok', raised, ended}
