-- ARGV: seq, oldest version in it, trajectories, view, data, zero_variance (1 or 0), mean length of its games, or '': as far as
-- they have come, the facts of a group that is ready and of one that is too stale, a sum of the data
--> ok state:text code:text
--> unconfirmed why:text
local doubtful = doubt(0, 0)
if doubtful then return {'unconfirmed', doubtful} end
local seq = ARGV[1]
if not known_range(seq) then return {'invalid'} end
local state, code = state_of(seq)
if state and state ~= 'queued' and state ~= 'in_flight' then return {'ok', state, code or ''} end
local length = ARGV[7] ~= '' and ARGV[7] or length(seq)
if tonumber(ARGV[2]) < oldest_fresh() then
  call('HSET', group(seq), 'len', length)
  drop(seq, state, 'stale', ARGV[9])
  return {'ok', 'dropped', 'stale'}
end
move(seq, state, 'ready')
local bytes = #ARGV[5]
call('HSET', group(seq), 'min', ARGV[2], 'traj', ARGV[3], 'view', ARGV[4], 'data', ARGV[5], 'bytes', bytes,
  'at', math.max(int('version'), tonumber(ARGV[2])), 'zero_variance', ARGV[6], 'len', length, 'sum', ARGV[10])
call('HINCRBY', run, 'bytes', bytes)
call('HSET', group(seq), 'nth', call('HINCRBY', run, 'commits', 1))
call('HINCRBY', run, 'committed_bytes', bytes)
spend(seq, 'journals')
call('HSET', group(seq), 'games', samples(seq))
call('DEL', games(seq))
tell(ARGV[8])
changed()
return {'ok', '', ''}
