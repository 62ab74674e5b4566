package api

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// followAgain is how long the server waits before it tries again to hear of changes.
const followAgain = time.Second

// followChanges wakes polls when any process changes the buffer, until ctx is done. It is only a hint: while it hears
// nothing, polls look by themselves, more often.
func (s *Server) followChanges(ctx context.Context) {
	for ctx.Err() == nil {
		err := s.deps.Changes(ctx, func() {
			s.hears.Store(true)
			s.waiters.wakeFirst("", true) // what changed before is looked for
		}, func(run rollout.RunName) { s.waiters.wakeFirst(run, false) })
		if s.hears.Swap(false) && ctx.Err() == nil {
			s.waiters.wakeFirst("", true) // so that they know how often to look from now on
			s.deps.Log.InfoContext(ctx, "not told of changes of the buffer for now; waiting claims look by themselves",
				"error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followAgain):
		}
	}
}

// maxHints is how many hints to the runs' workflows may come at once. Beyond it they are dropped: a run that gets no
// hint looks by itself, later.
const maxHints = 256

// hintTimeout bounds one hint, and hintRest is how long its run gets no other after it: each is written into the
// workflow's history.
const (
	hintTimeout = 10 * time.Second
	hintRest    = 500 * time.Millisecond
)

// hint tells a run's workflow that its buffer has changed, and returns at once: no trainer waits for the workflow.
func (s *Server) hint(run rollout.RunName) {
	select {
	case s.hints <- run:
	default:
	}
}

// sendHints delivers hints until ctx is done. However often a run is hinted at while a hint is on its way or the run
// rests, one more follows.
func (s *Server) sendHints(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	again := map[rollout.RunName]bool{} // has the runs whose last hint is on its way, or just sent
	rested := make(chan rollout.RunName)
	for {
		var run rollout.RunName
		select {
		case <-ctx.Done():
			return
		case run = <-s.hints:
			if _, rests := again[run]; rests {
				again[run] = true
				continue
			}
		case run = <-rested:
			if !again[run] {
				delete(again, run)
				continue
			}
		}
		again[run] = false
		sending.Go(func() {
			s.sendHint(ctx, run)
			if retry.Pause(ctx, hintRest) != nil {
				return
			}
			select {
			case rested <- run:
			case <-ctx.Done():
			}
		})
	}
}

func (s *Server) sendHint(ctx context.Context, run rollout.RunName) {
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	if s.witness(ctx, run) {
		return
	}
	err := s.deps.Control.BufferChanged(ctx, run, runstatus.Mark{})
	if err != nil && !rollout.Refused(err, rollout.NoSuchRun) { // a run that is over has no polls
		s.deps.Log.WarnContext(ctx, "hint to workflow not delivered; the run looks by itself later",
			"run", string(run), "error", err)
	}
}
