package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/rollout"
)

// HangingCalls counts the calls of environments that were left behind and have not returned, by run. A run decides when
// its games are left behind (timeouts.phase), so that a call which is merely slow may be among them. The zero value
// is ready for use.
type HangingCalls struct {
	mu    sync.Mutex
	calls map[*hangingCall]bool
}

type hangingCall struct {
	run   rollout.RunName
	since time.Time
}

// Bounds of the calls that hang in a process. Each keeps its game's memory, and perhaps a whole core; only the end
// of the process ends it. So that a run whose environment hangs, or is always slower than the run allows, costs the
// others no more than a restart now and then, a run gets no more attempts here than can hang, and the process ends
// only for calls that hang for long.
const (
	MaxHanging  = 8               // of one run; and in the process, for as long as hangingFor
	hangingFor  = 2 * time.Minute // is no slow call any more
	hangingRest = 20 * time.Second
)

// leave counts a call in; back counts it out.
func (h *HangingCalls) leave(run rollout.RunName, now time.Time) (back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &hangingCall{run, now}
	if h.calls == nil {
		h.calls = map[*hangingCall]bool{}
	}
	h.calls[c] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.calls, c)
	}
}

// count is how many calls there are that are so.
func (h *HangingCalls) count(so func(*hangingCall) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for c := range h.calls {
		if so(c) {
			n++
		}
	}
	return n
}

// Count is how many there are.
func (h *HangingCalls) Count() int { return h.count(func(*hangingCall) bool { return true }) }

// of is how many there are of one run.
func (h *HangingCalls) of(run rollout.RunName) int {
	return h.count(func(c *hangingCall) bool { return c.run == run })
}

// lookHangingEvery bounds how long a process with too many hanging calls goes on.
const lookHangingEvery = time.Second

// Watch returns when ctx is done, or with an error once MaxHanging calls have hung for two minutes. The process should
// then end and be restarted by its supervisor; its games go on elsewhere.
func (h *HangingCalls) Watch(ctx context.Context) error {
	ticker := time.NewTicker(lookHangingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			n := h.count(func(c *hangingCall) bool { return now.Sub(c.since) >= hangingFor })
			if n >= MaxHanging {
				return fmt.Errorf("%d calls of environments hang in this process, and only its end ends them: start it again; "+
					"events rollout_error with code %s tell which calls", n, rollout.CodeEnvironmentHung)
			}
		}
	}
}

// errTooManyHanging ends an attempt before it has begun.
var errTooManyHanging = fmt.Errorf("%d calls of the run's environment hang in this worker already, or are slower "+
	"than timeouts.phase; "+
	"the game waits for them, or for another worker", MaxHanging)

// awaitHangingCalls waits a moment while too many calls of the run's environment hang here: the attempt keeps its slot
// meanwhile, so that games which cannot be played are not asked for again and again.
func (at *attempt) awaitHangingCalls(ctx context.Context) error {
	run := at.plan.Ref.Run
	if at.HangingCalls.of(run) < MaxHanging {
		return nil
	}
	over := time.NewTimer(within(ctx, hangingRest/2))
	defer over.Stop()
	ticker := time.NewTicker(at.lookEvery())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-activity.GetWorkerStopChannel(ctx):
			return rollout.Fail(rollout.Retryable, rollout.CodeEnvironmentHung, errTooManyHanging)
		case <-over.C:
			return rollout.Fail(rollout.Retryable, rollout.CodeEnvironmentHung, errTooManyHanging)
		case <-ticker.C:
			if at.HangingCalls.of(run) < MaxHanging {
				return nil
			}
			activity.RecordHeartbeat(ctx, at.progress.details()...) // no game is in progress that it could end
		}
	}
}

// unbegun takes an attempt that ended before it had begun: it is not held against the game.
func (at *attempt) unbegun(ctx context.Context, err error) error {
	if _, err := at.begin(ctx); err == nil {
		at.excuse(ctx, at.number)
	}
	return typedAfter(err, hangingRest)
}
