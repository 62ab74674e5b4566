-- ARGV: status, over (1 or 0), as of, then facts, which are told however late the status comes. Answers whether it was news, and whether the run was over before.
--> ok news:int was_over:int
for i = 4, #ARGV do tell_once(ARGV[i]) end
if not news(ARGV[3]) then return {'ok', 0, 0} end
local was = int('over')
call('HSET', run, 'status', ARGV[1], 'over', ARGV[2])
if int('over') ~= was then changed() end
return {'ok', 1, was}
