package api

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// findings makes one diagnosis of a run at a time, which all who ask meanwhile are given, and for a moment also
// those who ask after them while the run's account is as it was.
type findings struct {
	mu sync.Mutex
	by map[rollout.RunName]*finding
}

// finding is a diagnosis that is being made, or was.
type finding struct {
	of    accountMark
	made  chan struct{} // closed when value, err and at are set
	value any
	err   error
	at    time.Time
}

// accountMark changes whenever a run's account does.
type accountMark struct {
	counts     rollout.BufferCounts
	launched   int64
	claimed    rollout.Step
	version    rollout.PolicyVersion
	generation rollout.TrainerGeneration
}

const (
	findingAge     = 3 * time.Second // what the account does not show, such as engines, may change too
	findingTimeout = time.Minute
	findingsKept   = 64
)

// of answers the diagnosis of a run: one that is being made, a fresh one, or a new one by find.
func (f *findings) of(ctx context.Context, run rollout.RunName, mark accountMark, now func() time.Time,
	find func(context.Context) (any, error),
) (any, error) {
	f.mu.Lock()
	one := f.by[run]
	if one == nil || !one.usable(mark, now()) {
		one = &finding{of: mark, made: make(chan struct{})}
		if f.by == nil || len(f.by) >= findingsKept {
			f.by = map[rollout.RunName]*finding{}
		}
		f.by[run] = one
		go one.make(context.WithoutCancel(ctx), now, find) // Others may wait for it when this caller has gone.
	}
	f.mu.Unlock()
	select {
	case <-one.made:
		return one.value, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *finding) usable(mark accountMark, now time.Time) bool {
	select {
	case <-f.made:
		return f.err == nil && f.of == mark && now.Sub(f.at) < findingAge
	default:
		return true
	}
}

func (f *finding) make(ctx context.Context, now func() time.Time, find func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(ctx, findingTimeout)
	defer cancel()
	defer close(f.made)
	f.value, f.err = find(ctx)
	f.at = now()
}
