package api

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// diagnosisCache makes one diagnosis of a run at a time, for all who ask meanwhile, and keeps the latest. How old it
// may be is for who asks to say.
type diagnosisCache struct {
	now    func() time.Time
	panics panics.Watch
	// diagnose makes a diagnosis, and says of which account it is.
	diagnose func(context.Context, rollout.RunName) (any, accountMark, error)

	mu sync.Mutex
	by map[rollout.RunName]*latestDiagnosis
}

// latestDiagnosis is what is known of one run.
type latestDiagnosis struct {
	good   diagnosed     // the last that did not fail; its value is nil if there was none
	last   diagnosed     // the last, failed or not
	making chan struct{} // closed when the one that is being made is there; nil: none is
}

// diagnosed is a diagnosis that was made.
type diagnosed struct {
	of    accountMark
	value any
	err   error
	at    time.Time
}

// accountMark changes whenever a run's account does.
type accountMark struct {
	counts     steprecord.BufferCounts
	launched   int64
	claimed    rollout.Step
	next       rollout.Step
	version    rollout.PolicyVersion
	generation rollout.TrainerGeneration
}

const (
	diagnosisAge     = 3 * time.Second // what the account does not show, such as engines, may change too
	diagnosisTimeout = time.Minute
	diagnosesKept    = 128
)

// of answers the diagnosis of a run: the latest one if it is fresh, or the next one.
func (c *diagnosisCache) of(ctx context.Context, run rollout.RunName, fresh func(diagnosed) bool) (any, error) {
	one := c.begin(ctx, run, fresh)
	c.await(ctx, one, 0)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return one.last.value, one.last.err
}

// latest answers the diagnosis of a run that is there when patience ends: the next one, or the one before; nil and no
// error: the first is being made.
func (c *diagnosisCache) latest(ctx context.Context, run rollout.RunName, fresh func(diagnosed) bool,
	patience time.Duration) (any, error) {
	one := c.begin(ctx, run, fresh)
	c.await(ctx, one, patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.good.value != nil {
		return one.good.value, nil
	}
	return nil, one.last.err
}

// begin has a diagnosis made, unless one is being made or the last one is fresh.
func (c *diagnosisCache) begin(ctx context.Context, run rollout.RunName, fresh func(diagnosed) bool) *latestDiagnosis {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.by[run]
	if one == nil {
		if c.by == nil || len(c.by) >= diagnosesKept {
			c.by = map[rollout.RunName]*latestDiagnosis{}
		}
		one = &latestDiagnosis{}
		c.by[run] = one
	}
	if one.making == nil && (one.last.at.IsZero() || !fresh(one.last)) {
		one.making = make(chan struct{})
		go c.make(context.WithoutCancel(ctx), run, one) // Others may wait for it when this caller has gone.
	}
	return one
}

// await waits for the diagnosis that is being made; patience 0: however long it takes.
func (c *diagnosisCache) await(ctx context.Context, one *latestDiagnosis, patience time.Duration) {
	c.mu.Lock()
	making := one.making
	c.mu.Unlock()
	if making == nil {
		return
	}
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	select {
	case <-making:
	case <-ctx.Done():
	}
}

func (c *diagnosisCache) make(ctx context.Context, run rollout.RunName, one *latestDiagnosis) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
	defer cancel()
	var d diagnosed
	d.err = c.panics.Catch("diagnosis", func() (err error) {
		d.value, d.of, err = c.diagnose(ctx, run)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	d.at = c.now()
	if one.last = d; d.err == nil {
		one.good = d
	}
	close(one.making)
	one.making = nil
}
