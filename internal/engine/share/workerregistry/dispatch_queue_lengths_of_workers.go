package workerregistry

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// ReportQueue reports how many requests wait in a worker's dispatch queue; see Queued.
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
	workers, err := r.Alive(ctx)
	if err != nil {
		return 0, err
	}
	sum := 0
	for worker, text := range queues {
		if !slices.Contains(workers, worker) {
			_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
				r.forget(ctx, tx, worker)
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
