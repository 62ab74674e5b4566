-- ARGV: step to resume from, or ''
--> ok epoch:int from:int
--> out-of-order next:int
--> run-over
--> not-retained oldest:int
local next_step = int('next')
local from = next_step
if ARGV[1] ~= '' then from = tonumber(ARGV[1]) end
if from > next_step then return {'out-of-order', next_step} end
if from < next_step and int('over') == 1 then return {'run-over'} end
if from < int('oldest') then return {'not-retained', int('oldest')} end
for k = from, next_step - 1 do
  for _, seq in ipairs(groups_of(k)) do
    call('ZADD', base .. 'claimed', seq, seq)
    call('HSET', group(seq), 'state', 'claimed')
    call('HINCRBY', run, 'completed', -1)
    local left = call('HGET', group(seq), 'left')
    if left then -- else it was completed before departures were counted
      call('HINCRBY', base .. 'departures', left .. ' trained', -1)
      call('HDEL', group(seq), 'left')
    end
  end
  call('HDEL', step_key(k), 'report', 'fleet', 'engines', 'completed', 'done')
end
call('HSET', run, 'next', from)
call('HDEL', run, 'asked', 'polled') -- the process that waited is replaced
return {'ok', call('HINCRBY', run, 'epoch', 1), from}
