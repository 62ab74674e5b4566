-- ARGV: step, generation, now, report, fleet, completed steps to retain, the views packed or '', records to keep them in,
-- the fact, era and serial of the account as the caller knows it, seconds since the step's batch was granted, the results
-- of its games packed
--> ok now:int record:pairs mark:ints
--> unconfirmed why:text
--> fenced generation:int
--> not-claimed granted:int
--> conflict
--> out-of-order next:int
local doubtful = doubt(ARGV[10], ARGV[11])
if doubtful then return {'unconfirmed', doubtful} end
local k, generation, key = tonumber(ARGV[1]), int('generation'), step_key(tonumber(ARGV[1]))
if tonumber(ARGV[2]) ~= generation then return {'fenced', generation} end
local next_step = int('next')
if k >= int('granted') then return {'not-claimed', int('granted')} end
if k < next_step then
  if call('HDEL', key, 'lost_record') == 1 then -- the trainer still has it
    call('HSET', key, 'generation', generation, 'report', ARGV[4], 'fleet', ARGV[5])
    tell(ARGV[9])
  end
  local report = call('HGET', key, 'report')
  if report ~= ARGV[4] then return {'conflict'} end
  return {'ok', 0, call('HGETALL', key), mark()}
end
if k > next_step then return {'out-of-order', next_step} end

for _, seq in ipairs(groups_of(k)) do
  call('ZREM', base .. 'claimed', seq)
  call('HSET', group(seq), 'state', 'completed', 'left', depart(seq, 'trained'))
  call('HINCRBY', run, 'completed', 1)
end
call('HSET', key, 'generation', generation, 'report', ARGV[4], 'fleet', ARGV[5], 'completed', ARGV[3], 'done', 1)
if ARGV[13] ~= '' then call('HSET', key, 'results', ARGV[13]) end
if ARGV[7] ~= '' then call('HSET', key, 'views', ARGV[7]) end
call('HDEL', step_key(k - tonumber(ARGV[8])), 'views', 'engines')
local took, usual = tonumber(ARGV[12]), tonumber(call('HGET', run, 'usual') or ARGV[12])
call('HSET', run, 'next', k + 1, 'heard', ARGV[3], 'usual', usual + (took - usual) / 4)

local oldest = int('oldest')
while oldest <= k - tonumber(ARGV[6]) do
  for _, seq in ipairs(groups_of(oldest)) do
    forget(seq)
    call('SETBIT', base .. 'trained', seq, 1)
  end
  oldest = oldest + 1
end
call('HSET', run, 'oldest', oldest)
tell(ARGV[9])
changed()
advance()
return {'ok', 1, call('HGETALL', key), mark()}
