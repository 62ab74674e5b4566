-- ARGV: status, over (1 or 0), as of. Answers whether it was news, and whether the run was over before.
if call('EXISTS', run) == 0 then return {'no-such-run'} end
if not news(ARGV[3]) then return {'ok'} end
local was = int('over')
call('HSET', run, 'status', ARGV[1], 'over', ARGV[2])
return {'ok', 1, was}
