package workerregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engineshare"
	"github.com/millrace/millrace/internal/redisscript"
	"github.com/millrace/millrace/internal/rollout"
)

// Announcement is what a worker tells the others several times a second, so that they can divide the engines.
type Announcement struct {
	Demand []rollout.RunDemand      `json:"demand,omitempty"`
	Held   map[rollout.EngineID]int `json:"held,omitempty"` // slots that nobody else may use
	Runs   map[rollout.RunName]int  `json:"runs,omitempty"` // share of the runs' own limits
	// InFlight is how many requests it has at each engine.
	InFlight map[rollout.EngineID]int `json:"in_flight,omitempty"`
}

// exchangeScript keeps a worker's announcement for a while, by Redis's clock, and answers with everybody's. What has
// run out is kept for a minute longer: who announced something once and is not heard of any more is gone, and not a
// worker of a version that announces nothing. Announcements of the same kind as Announce makes go along.
var exchangeScript = redisscript.New(`
local shares, workers, naming = KEYS[1], KEYS[2], KEYS[3]
local worker, text, lives, alive = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local out = {0}
local known, other = {}, ''
for i, entry in ipairs(redis.call('HGETALL', shares)) do
  if i % 2 == 1 then
    other = entry
  else
    known[other] = true
    local till, told = string.match(entry, '^(%d+) (.*)$')
    till = tonumber(till)
    if till + 60000 < now then
      redis.call('HDEL', shares, other)
    elseif till > now and other == worker then
      out[1] = 1
    elseif till > now then
      out[#out + 1] = other
      out[#out + 1] = told
    end
  end
end
redis.call('HSET', shares, worker, string.format('%.0f %s', now + lives, text))
redis.call('ZADD', workers, string.format('%.0f', now + alive), worker)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', string.format('%.0f', now))
redis.call('SADD', naming, worker)
redis.call('PEXPIRE', naming, 2 * alive)
for _, other in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
  if other ~= worker and not known[other] then
    out[#out + 1] = other
    out[#out + 1] = ''
  end
end
return out`)

// Exchange announces a worker and what it has to tell, and returns what the others have told. The announcement holds
// for lives by Redis's clock; for people and workers of earlier versions the worker is there for alive.
// continued reports whether the worker's announcement before this one still held.
func (r *Registry) Exchange(ctx context.Context, worker string, said Announcement, lives, alive time.Duration) (
	others []engineshare.Member, continued bool, err error,
) {
	text, err := json.Marshal(said)
	if err != nil {
		return nil, false, fmt.Errorf("announce worker: %w", err)
	}
	keys := []string{r.sharesKey(), r.workersKey(), r.namingKey()}
	reply, err := exchangeScript.Run(ctx, r.rdb, keys, worker, text, lives.Milliseconds(), alive.Milliseconds()).Slice()
	if err != nil {
		return nil, false, fmt.Errorf("announce worker: %w", err)
	}
	for i := 1; i+1 < len(reply); i += 2 {
		id, _ := reply[i].(string)
		told, _ := reply[i+1].(string)
		member := engineshare.Member{Worker: id, Silent: told == ""}
		if told != "" {
			var a Announcement
			if err := json.Unmarshal([]byte(told), &a); err != nil {
				return nil, false, fmt.Errorf("announcement of worker %s: %w", id, err)
			}
			member.Demand, member.Held, member.Runs, member.InFlight = a.Demand, a.Held, a.Runs, a.InFlight
		}
		others = append(others, member)
	}
	before, _ := reply[0].(int64)
	return others, before == 1, nil
}

func (r *Registry) sharesKey() string { return r.prefix + "workers:shares" }
