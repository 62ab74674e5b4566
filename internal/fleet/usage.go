package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/vllm"
)

// usageScript adds to the engines' totals what a worker's account has grown by since it was last heard of, and
// keeps the account. A worker that was forgotten meanwhile is continued from the account that it says was taken
// before. A count that fell began anew. Engines that are no members have no total.
var usageScript = redis.NewScript(`
local members, usage, worker = KEYS[1], KEYS[2], 'worker/' .. ARGV[1]
local before = cjson.decode(redis.call('HGET', usage, worker) or ARGV[2])
for engine, now in pairs(cjson.decode(ARGV[3])) do
  if redis.call('HEXISTS', members, engine) == 1 then
    local was = before[engine] or {}
    for i, count in ipairs({'input', 'output', 'requests', 'queue_ms'}) do
      local grown = now[i] - (was[i] or 0)
      if grown < 0 then grown = now[i] end
      redis.call('HINCRBY', usage, count .. '/' .. engine, string.format('%.0f', grown))
    end
  end
end
redis.call('HSET', usage, worker, ARGV[3])
return 1`)

// usageFields is what the registry keeps of an engine, in the script's order.
func usageFields(id rollout.EngineID) []string {
	engine := "/" + string(id)
	return []string{"input" + engine, "output" + engine, "requests" + engine, "queue_ms" + engine}
}

// account is a worker's usage per engine in the script's form.
func account(usage map[rollout.EngineID]rollout.Usage) ([]byte, error) {
	counts := make(map[rollout.EngineID][4]int64, len(usage))
	for id, u := range usage {
		counts[id] = [4]int64{u.InputTokens, u.OutputTokens, u.Requests, int64(u.QueueSec * 1000)}
	}
	return json.Marshal(counts)
}

// ReportUsage tells what the good answers to a worker's requests have used since the worker began, per engine;
// before is what it told when it last succeeded. What a worker told stays in the engines' totals when the worker is
// gone. The second call with the same account changes nothing.
func (r *Registry) ReportUsage(ctx context.Context, worker string, before, now map[rollout.EngineID]rollout.Usage) error {
	was, err := account(before)
	if err != nil {
		return err
	}
	is, err := account(now)
	if err != nil {
		return err
	}
	if err := usageScript.Run(ctx, r.rdb, []string{r.membersKey(), r.usageKey()}, worker, was, is).Err(); err != nil {
		return fmt.Errorf("report usage: %w", err)
	}
	return nil
}

// Usage is what workers, present and past, have told of an engine.
func (r *Registry) Usage(ctx context.Context, id rollout.EngineID) (rollout.Usage, error) {
	values, err := r.rdb.HMGet(ctx, r.usageKey(), usageFields(id)...).Result()
	if err != nil {
		return rollout.Usage{}, fmt.Errorf("read usage of %s: %w", id, err)
	}
	var counts [4]int64
	for i, value := range values {
		text, told := value.(string)
		if !told {
			continue
		}
		if counts[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return rollout.Usage{}, fmt.Errorf("usage of %s: %w", id, err)
		}
	}
	return rollout.Usage{
		InputTokens: counts[0], OutputTokens: counts[1], Requests: counts[2], QueueSec: float64(counts[3]) / 1000,
	}, nil
}

// forgetWorker takes back what is known of a worker that is gone. Its part in the engines' totals stays.
func (r *Registry) forgetWorker(ctx context.Context, tx redis.Pipeliner, worker string) {
	tx.HDel(ctx, r.queuesKey(), worker)
	tx.HDel(ctx, r.usageKey(), "worker/"+worker)
}

// ledger compares an engine's own counters with what workers were answered, since it was opened.
type ledger struct {
	opened, latest entry
}

// entry is both sides at one moment: the engine's counters, and the usage that workers told.
type entry struct {
	at      time.Time
	counted vllm.Sample
	told    rollout.Usage
}

// add takes in the newest entry. Counters that fell belong to an engine that was restarted: the ledger is opened anew.
func (l *ledger) add(e entry) {
	restarted := e.counted.PromptTokens < l.latest.counted.PromptTokens || e.counted.GenerationTokens < l.latest.counted.GenerationTokens
	if l.opened.at.IsZero() || restarted {
		*l = ledger{opened: e, latest: e}
		return
	}
	l.latest = e
}

// settle writes into load what the ledger tells.
func (l *ledger) settle(load *rollout.EngineLoad) {
	a, b := l.opened, l.latest
	load.UsageWindowSec = b.at.Sub(a.at).Seconds()
	load.UsageInputError = unexplained(b.counted.PromptTokens-a.counted.PromptTokens, float64(b.told.InputTokens-a.told.InputTokens))
	load.UsageOutputError = unexplained(b.counted.GenerationTokens-a.counted.GenerationTokens, float64(b.told.OutputTokens-a.told.OutputTokens))
}

// meanQueue is the mean wait in the dispatch queues of the requests told of between two moments; 0 where there were
// none.
func meanQueue(before, after rollout.Usage) float64 {
	if after.Requests <= before.Requests {
		return 0
	}
	return max(0, after.QueueSec-before.QueueSec) / float64(after.Requests-before.Requests)
}

// unexplained is the difference of what an engine counted and what workers were told, as a share of the larger:
// from 1, where all of the engine's tokens are unknown to the workers, through 0 to -1, where the engine counted
// none of theirs.
func unexplained(counted, told float64) float64 {
	larger := max(counted, told)
	if larger <= 0 {
		return 0
	}
	return (counted - told) / larger
}
