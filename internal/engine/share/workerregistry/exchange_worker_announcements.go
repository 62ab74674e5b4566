package workerregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine/share"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// exchangeScript keeps a worker's announcement for a while, by Redis's clock, and answers with the others' that hold.
// For people the worker is there for longer.
var exchangeScript = redisscript.New(`
local shares, workers = KEYS[1], KEYS[2]
local worker, text, lives, alive = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local out = {0}
local other = ''
for i, entry in ipairs(redis.call('HGETALL', shares)) do
  if i % 2 == 1 then
    other = entry
  else
    local till, told = string.match(entry, '^(%d+) (.*)$')
    till = tonumber(till)
    if till <= now then
      redis.call('HDEL', shares, other)
    elseif other == worker then
      out[1] = 1
    else
      out[#out + 1] = other
      out[#out + 1] = told
    end
  end
end
redis.call('HSET', shares, worker, string.format('%.0f %s', now + lives, text))
redis.call('ZADD', workers, string.format('%.0f', now + alive), worker)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', string.format('%.0f', now))
return out`)

// Exchange announces a worker, and returns the others' announcements. The announcement holds for lives by Redis's
// clock; people see the worker as present for alive. continued reports whether the worker's previous announcement still
// held.
func (r *Registry) Exchange(ctx context.Context, said share.Member, lives, alive time.Duration) (
	others []share.Member, continued bool, err error,
) {
	text, err := json.Marshal(said)
	if err != nil {
		return nil, false, fmt.Errorf("announce worker: %w", err)
	}
	keys := []string{r.sharesKey(), r.workersKey()}
	reply, err := exchangeScript.Run(ctx, r.rdb, keys, said.Worker, text, lives.Milliseconds(),
		alive.Milliseconds()).Slice()
	if err != nil {
		return nil, false, fmt.Errorf("announce worker: %w", err)
	}
	for i := 1; i+1 < len(reply); i += 2 {
		id, _ := reply[i].(string)
		told, _ := reply[i+1].(string)
		other := share.Member{Worker: id}
		if err := json.Unmarshal([]byte(told), &other); err != nil {
			return nil, false, fmt.Errorf("announcement of worker %s: %w", id, err)
		}
		others = append(others, other)
	}
	before, _ := reply[0].(int64)
	return others, before == 1, nil
}

func (r *Registry) sharesKey() string { return r.prefix + "workers:shares" }
