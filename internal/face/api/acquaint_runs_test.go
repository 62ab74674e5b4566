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

// counting counts the hints that each run's workflow is told, and is slow to take them.
type counting struct {
	Control
	mu   sync.Mutex
	told map[rollout.RunName]int
}

func (c *counting) BufferChanged(_ context.Context, run rollout.RunName, _ runstatus.Mark) error {
	time.Sleep(10 * time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[run]++
	return nil
}

// witnessed is a store all of whose marks the runs know.
type witnessed struct{ Store }

func (witnessed) Unwitnessed(rollout.RunName) (runstatus.Mark, bool) { return runstatus.Mark{}, false }

// A trainer that asks for a granted batch again and again does not fill its workflow's history, nor hold up the hint of
// another run; what it asked last is told.
func TestHintsOfARunAreToldTwiceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		temporal := &counting{told: map[rollout.RunName]int{}}
		s := &Server{deps: Deps{Control: temporal, Store: witnessed{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)},
			hints: make(chan rollout.RunName, maxHints)}
		ctx, cancel := context.WithCancel(t.Context())
		var sender sync.WaitGroup
		sender.Go(func() { s.sendHints(ctx) })
		told := func(run rollout.RunName) int {
			temporal.mu.Lock()
			defer temporal.mu.Unlock()
			return temporal.told[run]
		}
		for range 10_000 {
			s.hint("loud")
			time.Sleep(time.Millisecond)
		}
		if n := told("loud"); n < 15 || n > 21 {
			t.Errorf("%d hints in 10 s of a run that was hinted at 10,000 times, want two a second", n)
		}
		s.hint("quiet")
		time.Sleep(20 * time.Millisecond)
		if n := told("quiet"); n != 1 {
			t.Errorf("another run was told %d times", n)
		}
		time.Sleep(time.Second)
		before := told("loud")
		time.Sleep(time.Minute)
		if n := told("loud"); n != before {
			t.Errorf("%d hints more, a second after the last was asked for", n-before)
		}
		cancel()
		sender.Wait()
	})
}
