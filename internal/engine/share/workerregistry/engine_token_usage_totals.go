package workerregistry

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisscript"
)

// usageScript adds to the engines' totals what a worker's counts have grown by since it was last heard of, and keeps
// the counts. A worker that was forgotten meanwhile is continued from the counts that it says were taken before. A
// count that fell began again. Engines that are no members of the fleet have no total.
var usageScript = redisscript.New(`
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

// usageFields lists an engine's fields in the registry, in the script's order.
func usageFields(id rollout.EngineID) []string {
	engine := "/" + string(id)
	return []string{"input" + engine, "output" + engine, "requests" + engine, "queue_ms" + engine}
}

// encodeCounts is a worker's usage per engine in the script's form.
func encodeCounts(usage map[rollout.EngineID]rollout.Usage) ([]byte, error) {
	counts := make(map[rollout.EngineID][4]int64, len(usage))
	for id, u := range usage {
		counts[id] = [4]int64{u.InputTokens, u.OutputTokens, u.Requests, int64(u.QueueSec * 1000)}
	}
	return json.Marshal(counts)
}

// ReportUsage reports, per engine, the tokens of all good answers since the worker began; before is its last successful
// report. The engines' totals keep it when the worker is gone. A second call with the same usage changes nothing.
func (r *Registry) ReportUsage(
	ctx context.Context, worker string, before, now map[rollout.EngineID]rollout.Usage,
) error {
	was, err := encodeCounts(before)
	if err != nil {
		return err
	}
	is, err := encodeCounts(now)
	if err != nil {
		return err
	}
	if err := usageScript.Run(ctx, r.rdb, []string{r.enginesKey(), r.usageKey()}, worker, was, is).Err(); err != nil {
		return fmt.Errorf("report usage: %w", err)
	}
	return nil
}

// Usage is an engine's total over all workers, present and past.
func (r *Registry) Usage(ctx context.Context, id rollout.EngineID) (rollout.Usage, error) {
	values, err := r.rdb.HMGet(ctx, r.usageKey(), usageFields(id)...).Result()
	if err != nil {
		return rollout.Usage{}, fmt.Errorf("read usage of %s: %w", id, err)
	}
	var counts [4]int64
	for i, value := range values {
		text, reported := value.(string)
		if !reported {
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

// ForgetEngine adds to a transaction that an engine which leaves the fleet has no total any more.
func (r *Registry) ForgetEngine(ctx context.Context, tx redis.Pipeliner, id rollout.EngineID) {
	tx.HDel(ctx, r.usageKey(), usageFields(id)...)
}
