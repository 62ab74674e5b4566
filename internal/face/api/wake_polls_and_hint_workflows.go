package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// followAgain is how long the server waits before it tries again to hear of changes.
const followAgain = time.Second

// followChanges wakes polls when any process changes the buffer, until ctx is done. It is only a hint: while it hears
// nothing, polls look by themselves, more often.
func (s *Server) followChanges(ctx context.Context) {
	if s.deps.Changes == nil {
		return
	}
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

// maxHints is how many hints to the runs' workflows may be on their way. Beyond it they are dropped: a run that gets no
// hint looks by itself, later.
const maxHints = 256

// hintTimeout bounds one hint.
const hintTimeout = 10 * time.Second

// hint tells a run's workflow that its buffer has changed, and returns at once: no trainer waits for the workflow.
func (s *Server) hint(run rollout.RunName) {
	select {
	case s.hints <- run:
	default:
		s.deps.Log.Warn("hint to workflow dropped: too many on their way", "run", run)
	}
}

// sendHints delivers hints one by one until ctx is done.
func (s *Server) sendHints(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case run := <-s.hints:
			s.sendHint(ctx, run)
		}
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
