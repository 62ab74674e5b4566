package api

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// diagnosisCache makes one diagnosis of a run at a time, which all who ask meanwhile are given, and for a moment also
// those who ask after them while the run's account is as it was.
type diagnosisCache struct {
	mu sync.Mutex
	by map[rollout.RunName]*cachedDiagnosis
}

// cachedDiagnosis is a diagnosis that is being made, or was.
type cachedDiagnosis struct {
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
	diagnosisAge     = 3 * time.Second // what the account does not show, such as engines, may change too
	diagnosisTimeout = time.Minute
	diagnosesKept    = 64
)

// of answers the diagnosis of a run: one that is being made, a fresh one, or a new one by diagnose.
func (c *diagnosisCache) of(ctx context.Context, run rollout.RunName, mark accountMark, now func() time.Time,
	diagnose func(context.Context) (any, error),
) (any, error) {
	c.mu.Lock()
	one := c.by[run]
	if one == nil || !one.usable(mark, now()) {
		one = &cachedDiagnosis{of: mark, made: make(chan struct{})}
		if c.by == nil || len(c.by) >= diagnosesKept {
			c.by = map[rollout.RunName]*cachedDiagnosis{}
		}
		c.by[run] = one
		go one.make(context.WithoutCancel(ctx), now, diagnose) // Others may wait for it when this caller has gone.
	}
	c.mu.Unlock()
	select {
	case <-one.made:
		return one.value, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *cachedDiagnosis) usable(mark accountMark, now time.Time) bool {
	select {
	case <-d.made:
		return d.err == nil && d.of == mark && now.Sub(d.at) < diagnosisAge
	default:
		return true
	}
}

func (d *cachedDiagnosis) make(ctx context.Context, now func() time.Time, diagnose func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
	defer cancel()
	defer close(d.made)
	d.value, d.err = diagnose(ctx)
	d.at = now()
}
