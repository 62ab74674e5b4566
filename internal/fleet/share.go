package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Announce tells the fleet that a worker process dispatches requests, for the next ttl. Workers
// announce themselves several times per ttl, which must be far above the difference of their clocks.
func (r *Registry) Announce(ctx context.Context, worker string, ttl time.Duration) error {
	now := r.now()
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZAdd(ctx, r.workersKey(), redis.Z{Score: float64(now.Add(ttl).UnixMilli()), Member: worker})
		tx.ZRemRangeByScore(ctx, r.workersKey(), "-inf", strconv.FormatInt(now.UnixMilli(), 10))
		tx.SAdd(ctx, r.namingKey(), worker)
		tx.PExpire(ctx, r.namingKey(), 2*ttl)
		return nil
	})
	if err != nil {
		return fmt.Errorf("announce worker: %w", err)
	}
	return nil
}

// Leave takes a worker's announcement back, so that the others get its slots at once.
func (r *Registry) Leave(ctx context.Context, worker string) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZRem(ctx, r.workersKey(), worker)
		tx.SRem(ctx, r.namingKey(), worker)
		r.forgetWorker(ctx, tx, worker)
		return nil
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Workers is the worker processes announced, sorted.
func (r *Registry) Workers(ctx context.Context) ([]string, error) {
	since := "(" + strconv.FormatInt(r.now().UnixMilli(), 10)
	workers, err := r.rdb.ZRangeByScore(ctx, r.workersKey(), &redis.ZRangeBy{Min: since, Max: "+inf"}).Result()
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	slices.Sort(workers)
	return workers, nil
}

// Outdated is the announced workers of versions whose workflow ids do not carry the deployment's name. While there
// are any, runs must be begun as such a version does: it may be the one to begin them.
func (r *Registry) Outdated(ctx context.Context) ([]string, error) {
	workers, err := r.Workers(ctx)
	if err != nil {
		return nil, err
	}
	naming, err := r.rdb.SMembers(ctx, r.namingKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("read workers: %w", err)
	}
	return slices.DeleteFunc(workers, func(id string) bool { return slices.Contains(naming, id) }), nil
}

// ReportQueue tells how many requests wait in a worker's dispatch queue; see Queued.
func (r *Registry) ReportQueue(ctx context.Context, worker string, requests int) error {
	if err := r.rdb.HSet(ctx, r.queuesKey(), worker, requests).Err(); err != nil {
		return fmt.Errorf("report queue: %w", err)
	}
	return nil
}

// Queued sums the dispatch queues of the workers announced, and forgets those who are gone.
func (r *Registry) Queued(ctx context.Context) (int, error) {
	queues, err := r.rdb.HGetAll(ctx, r.queuesKey()).Result()
	if err != nil || len(queues) == 0 {
		return 0, err
	}
	workers, err := r.Workers(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0
	for worker, text := range queues {
		if !slices.Contains(workers, worker) {
			_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
				r.forgetWorker(ctx, tx, worker)
				return nil
			})
			if err != nil {
				return 0, fmt.Errorf("forget worker %s: %w", worker, err)
			}
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("queue of %s: %w", worker, err)
		}
		sum += n
	}
	return sum, nil
}

// Share is the engines with the part of each one's limit that worker me may use. Every worker computes the same
// division from the same members, so nothing is negotiated. An engine that must give its requests back, because it
// is quarantined or drained at once, is shown as lost.
//
// An engine's limit is divided evenly; the slots left over go round the workers in turn, from ready engine to ready
// engine, so that no two workers' totals differ by more than one. The parts add up to the limit exactly, with one
// exception: a worker for which no ready engine has a slot left gets one all the same, for its games would stand
// still; then the fleet's limits are exceeded by at most one request per such worker. While workers or engines come
// and go, a worker may hold requests of its former part until they finish. A worker that is not announced yet
// counts itself in.
func Share(engines []rollout.Engine, me string, workers []string) []rollout.Engine {
	n, rank := position(me, workers)
	shared := slices.Clone(engines)
	slices.SortFunc(shared, func(a, b rollout.Engine) int { return compareIDs(a.ID, b.ID) })
	total, next := 0, 0 // next: the rank whose turn it is to get a slot left over
	var ready []*rollout.Engine
	for i := range shared {
		e := &shared[i]
		if e.Recalled {
			e.State = rollout.EngineLost
		}
		part, left := e.Limit()/n, e.Limit()%n
		if (rank-next+n)%n < left {
			part++
		}
		e.MaxInFlight = part
		if e.State == rollout.EngineReady {
			next = (next + left) % n
			total += part
			ready = append(ready, e)
		}
	}
	if total == 0 && len(ready) > 0 {
		ready[rank%len(ready)].MaxInFlight = 1
	}
	return shared
}

// position is how many workers there are, and which of them, in order, is me.
func position(me string, workers []string) (n, rank int) {
	all := slices.Clone(workers)
	all = append(all, me)
	slices.Sort(all)
	all = slices.Compact(all)
	return len(all), slices.Index(all, me)
}

func compareIDs(a, b rollout.EngineID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
