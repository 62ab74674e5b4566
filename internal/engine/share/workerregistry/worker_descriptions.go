package workerregistry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// Bounds of what is kept of workers that are gone, for those who look for them.
const (
	goneFor  = 12 * time.Hour
	goneMost = 64
)

// Describe keeps what a worker says of itself, for people; see Exchange for what its share of the engines depends on.
func (r *Registry) Describe(ctx context.Context, w enginestate.Worker) error {
	w.LastSeen = r.now().UTC()
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("describe worker: %w", err)
	}
	if err := r.rdb.HSet(ctx, r.describedKey(), w.ID, text).Err(); err != nil {
		return fmt.Errorf("describe worker: %w", err)
	}
	return nil
}

// List describes the workers that are alive, the busiest first, and then those that are gone, the latest first. A
// worker that has only just announced itself has an id and nothing else. Where none is alive and Redis takes no writes,
// whether any is cannot be known: that is an error, which says why.
func (r *Registry) List(ctx context.Context) ([]enginestate.Worker, error) {
	announced, err := r.Alive(ctx)
	if err != nil {
		return nil, err
	}
	if len(announced) == 0 {
		if err := r.rdb.Set(ctx, r.prefix+"writable", 1, time.Second).Err(); err != nil {
			if what := redisserver.Outage(err); what != "" {
				err = fmt.Errorf("%w: %w", rollout.Refuse(rollout.Unavailable, "%s", what), err)
			}
			return nil, fmt.Errorf("list workers: %w", err)
		}
	}
	described, err := r.rdb.HGetAll(ctx, r.describedKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	alive := map[string]bool{}
	for _, id := range announced {
		alive[id] = true
	}
	workers := make([]enginestate.Worker, 0, len(alive))
	for id, text := range described {
		var w enginestate.Worker
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			return nil, fmt.Errorf("worker %s: %w", id, err)
		}
		switch {
		case alive[id]:
			w.State = enginestate.WorkerAlive
		case w.State != enginestate.WorkerStopped:
			w.State = enginestate.WorkerAbsent
		}
		if w.State != enginestate.WorkerAlive {
			w.Games, w.ByRun, w.Breakers, w.Requests, w.Shares = 0, nil, nil, nil, nil
		}
		delete(alive, id)
		workers = append(workers, w)
	}
	for id := range alive {
		workers = append(workers, enginestate.Worker{ID: id, State: enginestate.WorkerAlive, LastSeen: r.now().UTC()})
	}
	slices.SortFunc(workers, func(a, b enginestate.Worker) int {
		if there := cmp.Compare(goneLast(a), goneLast(b)); there != 0 || goneLast(a) == 1 {
			return cmp.Or(there, b.LastSeen.Compare(a.LastSeen), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(b.Games, a.Games), cmp.Compare(a.ID, b.ID))
	})
	return workers, nil
}

func goneLast(w enginestate.Worker) int {
	if w.State == enginestate.WorkerAlive {
		return 0
	}
	return 1
}

// ForgetGone forgets the workers that have been gone for long, and the longest gone of more than a few. Workers do so
// when they start.
func (r *Registry) ForgetGone(ctx context.Context) error {
	workers, err := r.List(ctx)
	if err != nil {
		return err
	}
	gone := 0
	var forget []string
	for _, w := range workers {
		if w.State == enginestate.WorkerAlive {
			continue
		}
		if gone++; gone > goneMost || r.now().Sub(w.LastSeen) > goneFor {
			forget = append(forget, w.ID)
		}
	}
	if len(forget) == 0 {
		return nil
	}
	if err := r.rdb.HDel(ctx, r.describedKey(), forget...).Err(); err != nil {
		return fmt.Errorf("forget workers: %w", err)
	}
	return nil
}
