package api

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// mute is a Temporal without workers: it takes signals, and no query is answered in time.
type mute struct {
	Control
	told   atomic.Int64
	answer atomic.Bool
}

func (m *mute) Mark(ctx context.Context, _ rollout.RunName) (runstatus.Mark, error) {
	if m.answer.Load() {
		return runstatus.Mark{}, rollout.Refuse(rollout.NoSuchRun, "no such run")
	}
	<-ctx.Done()
	return runstatus.Mark{}, ctx.Err()
}

func (m *mute) BufferChanged(context.Context, rollout.RunName, runstatus.Mark) error {
	m.told.Add(1)
	return nil
}

// unwitnessed is a store with one mark that its run does not know.
type unwitnessed struct{ Store }

func (unwitnessed) Knows(rollout.RunName) bool { return false }
func (unwitnessed) UnwitnessedRuns() []rollout.RunName {
	return []rollout.RunName{
		"late"}
}
func (unwitnessed) Witnessed(context.Context, rollout.RunName, runstatus.Mark) error { return nil }
func (unwitnessed) Unwitnessed(rollout.RunName) (runstatus.Mark, bool) {
	return runstatus.Mark{Serial: 1}, true
}

// Runs that do not answer are asked side by side and hold up no mark; what is remembered of them is forgotten when they
// have answered.
func TestRunsThatDoNotAnswerHoldNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := &mute{}
		s := &Server{deps: Deps{Control: temporal, Store: unwitnessed{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)},
			hints: make(chan rollout.RunName, 100)}
		var claims sync.WaitGroup
		for i := range 50 {
			claims.Go(func() { s.acquaint(t.Context(), rollout.RunName(fmt.Sprint("run", i))) })
			s.compare(rollout.RunName(fmt.Sprint("run", i)))
		}
		claims.Wait()
		began := time.Now()
		s.acquaintAgain(t.Context())
		if took := time.Since(began); took > 50/askedAtOnce*witnessPatience+witnessPatience {
			t.Errorf("50 runs that do not answer were asked in %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.tellMarks(ctx)
		if n := temporal.told.Load(); n < 9 {
			t.Errorf("a mark was told %d times in 10 s, want every second", n)
		}
		temporal.answer.Store(true)
		ctx, cancel = context.WithTimeout(t.Context(), 2*answeredFor)
		defer cancel()
		s.tellMarks(ctx)
		for name, left := range map[string]*sync.Map{"asked": &s.acquainted, "compared": &s.comparing} {
			left.Range(func(run, _ any) bool {
				t.Errorf("%v is still remembered as %s", run, name)
				return false
			})
		}
	})
}
