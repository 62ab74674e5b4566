-- ARGV: seq
--> ok state:text code:text launched:int oldest:int next:int
if not known_range(ARGV[1]) then return {'ok', '', '', int('highest'), int('oldest'), int('next')} end
local state, code = state_of(ARGV[1])
return {'ok', state or '', code or '', int('highest'), int('oldest'), int('next')}
