-- ARGV: step to resume from, or '', era and serial of the account as the caller knows it, now. A trainer that goes back gives
-- up what it learned from the steps from there on: of those whose batches are lost, others are formed.
--> ok generation:int from:int mark:ints
--> unconfirmed why:text
--> out-of-order next:int
--> run-over
--> not-retained oldest:int
local doubtful = doubt(ARGV[2], ARGV[3])
if doubtful then return {'unconfirmed', doubtful} end
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
  call('HDEL', step_key(k), 'report', 'fleet', 'engines', 'completed', 'done', 'lost_record')
end
if ARGV[1] ~= '' then
  for k = from, int('granted') - 1 do
    if call('HGET', step_key(k), 'lost') then call('HSET', step_key(k), 'lost', 'again') end
  end
end
call('HSET', run, 'next', from)
changed()
call('HDEL', run, 'asked', 'polled', 'beats') -- the process that waited is replaced
local generation = math.max(int('generation') + 1, int('least_generation'))
call('HSET', run, 'generation', generation, 'heard', ARGV[4])
advance()
return {'ok', generation, from, mark()}
