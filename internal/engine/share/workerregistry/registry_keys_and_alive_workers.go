package workerregistry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/redisscript"
)

// Registry lists the worker processes, in Redis. All its keys share the fleet's hash tag.
type Registry struct {
	rdb    redis.UniversalClient
	prefix string
	now    func() time.Time
}

// New keeps the workers under prefix, which is also the fleet's.
func New(rdb redis.UniversalClient, prefix string, now func() time.Time) *Registry {
	return &Registry{rdb: rdb, prefix: prefix + ":{fleet}:", now: now}
}

// Leave takes a worker's announcement back, so that the others get its share of the engines at once.
func (r *Registry) Leave(ctx context.Context, worker string) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZRem(ctx, r.workersKey(), worker)
		tx.HDel(ctx, r.sharesKey(), worker)
		r.forget(ctx, tx, worker)
		return nil
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// aliveScript is the workers that are there by Redis's clock, whatever the clocks of theirs and ours say.
var aliveScript = redisscript.New(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')`)

// Alive is the ids of the worker processes announced, sorted.
func (r *Registry) Alive(ctx context.Context) ([]string, error) {
	workers, err := aliveScript.Run(ctx, r.rdb, []string{r.workersKey()}).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	slices.Sort(workers)
	return workers, nil
}

// forget takes back what a worker that is gone has reported. Its part in the engines' totals stays.
func (r *Registry) forget(ctx context.Context, tx redis.Pipeliner, worker string) {
	tx.HDel(ctx, r.queuesKey(), worker)
	tx.HDel(ctx, r.usageKey(), "worker/"+worker)
}

func (r *Registry) workersKey() string   { return r.prefix + "workers" }
func (r *Registry) describedKey() string { return r.prefix + "workers:described" }
func (r *Registry) queuesKey() string    { return r.prefix + "queues" }
func (r *Registry) usageKey() string     { return r.prefix + "usage" }
func (r *Registry) enginesKey() string   { return r.prefix + "members" } // of package fleet
