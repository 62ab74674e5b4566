-- ARGV: seq. Answers {'ok', state or '', code, groups launched, first step retained}.
if call('EXISTS', run) == 0 then return {'no-such-run'} end
if not known_range(ARGV[1]) then return {'ok', '', '', int('highest'), int('oldest')} end
local state, code = state_of(ARGV[1])
return {'ok', state or '', code or '', int('highest'), int('oldest')}
