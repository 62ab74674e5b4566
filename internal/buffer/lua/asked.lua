-- ARGV: how many of the latest grants. Answers when the next step was asked for first
-- and last, and of the grants when each was asked for and granted, the latest first.
--> ok first:text latest:text step:int grants:list
local step, grants = int('granted'), {}
for k = step - 1, math.max(0, step - tonumber(ARGV[1])), -1 do
  local at = call('HMGET', step_key(k), 'asked', 'granted')
  if at[1] and at[2] then
    grants[#grants + 1] = at[1]
    grants[#grants + 1] = at[2]
  end
end
return {'ok', call('HGET', run, 'asked') or '', call('HGET', run, 'polled') or '', step, grants}
