package api

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// figuresFor is how long the figures beside an answer "not ready" are used again: the ranks of a trainer, of which
// there may be thousands, are all told the same.
const figuresFor = 250 * time.Millisecond

// claimFigures are what claims are told of their run when its batch is not ready. The zero value is ready for use.
type claimFigures struct {
	mu    sync.Mutex
	byRun map[rollout.RunName]figures
}

type figures struct {
	at     time.Time
	counts steprecord.BufferCounts
	status runstatus.RunStatus
}

// of reads a run's figures, at most so often, and reports whether they could be read.
func (c *claimFigures) of(ctx context.Context, store Store, run rollout.RunName, now time.Time) (figures, bool) {
	if f, known := c.known(run, now); known {
		return f, true
	}
	f := figures{at: now}
	var errCounts, errStatus error
	f.counts, errCounts = store.Counts(ctx, run)
	f.status, errStatus = store.Status(ctx, run)
	if errCounts != nil || errStatus != nil {
		return f, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byRun == nil {
		c.byRun = map[rollout.RunName]figures{}
	}
	c.byRun[run] = f
	return f, true
}

// known is a run's figures if they are new; what is old is forgotten.
func (c *claimFigures) known(run rollout.RunName, now time.Time) (figures, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.byRun, func(_ rollout.RunName, f figures) bool { return now.Sub(f.at) >= figuresFor })
	f, known := c.byRun[run]
	return f, known
}
