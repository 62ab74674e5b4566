package web

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// reports keeps the latest diagnosis of each run, so that a page is shown at once: with what was found a moment ago,
// while the next one is being made.
type reports struct {
	now func() time.Time
	mu  sync.Mutex
	by  map[rollout.RunName]*report
}

type report struct {
	value  diagnosis.Report
	known  bool
	failed error
	at     time.Time
	mark   rollout.Step // the run's next step when it was made
	making chan struct{}
}

const (
	reportsKept   = 128
	reportAge     = 20 * time.Second
	reportTimeout = time.Minute
)

// of is the latest report of a run; known is false while there is none. It waits for a new one as long as patience
// lasts, and for the first one ten times that.
func (r *reports) of(ctx context.Context, api caller, status rollout.RunStatus, patience time.Duration,
) (value diagnosis.Report, known bool, failed error) {
	r.mu.Lock()
	one := r.by[status.Spec.Name]
	if one == nil {
		if r.by == nil || len(r.by) >= reportsKept {
			r.by = map[rollout.RunName]*report{}
		}
		one = &report{}
		r.by[status.Spec.Name] = one
	}
	old := r.now().Sub(one.at) > reportAge && !status.State.Over()
	if one.making == nil && (one.at.IsZero() || one.mark != status.NextStep || old) {
		one.making = make(chan struct{})
		go r.make(ctx, api, one, status)
	}
	making := one.making
	if !one.known {
		patience *= 10
	}
	r.mu.Unlock()
	await(ctx, making, patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	return one.value, one.known, one.failed
}

func await(ctx context.Context, ended chan struct{}, patience time.Duration) {
	if ended == nil || patience <= 0 {
		return
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-ended:
	case <-enough.C:
	case <-ctx.Done():
	}
}

func (r *reports) make(ctx context.Context, api caller, one *report, status rollout.RunStatus) {
	ctx, cancel := within(ctx, reportTimeout)
	defer cancel()
	var value diagnosis.Report
	err := api.get(ctx, runPath(status.Spec.Name)+"/diagnosis", &value)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		one.value, one.known = value, true
	}
	one.failed, one.at, one.mark = err, r.now(), status.NextStep
	close(one.making)
	one.making = nil
}
