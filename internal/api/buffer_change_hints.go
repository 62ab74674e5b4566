package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

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
	if err := s.deps.Control.BufferChanged(ctx, run, rollout.Mark{}); err != nil {
		s.deps.Log.WarnContext(ctx, "hint to workflow not delivered; the run looks by itself later",
			"run", string(run), "error", err)
	}
}
