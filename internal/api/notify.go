package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// notice is a hint to the run's workflow.
type notice struct {
	run       rollout.RunName
	step      rollout.Step
	completed bool // else claimed
}

// noticeBound is how many hints may be on their way. Beyond it they are dropped: a run that gets no hint looks by
// itself, later.
const noticeBound = 256

// noticeTimeout bounds one hint.
const noticeTimeout = 10 * time.Second

// tell hands a hint over and returns at once: no trainer waits for the workflow.
func (s *Server) tell(n notice) {
	select {
	case s.notices <- n:
	default:
		s.deps.Log.Warn("hint to workflow dropped: too many on their way", "run", n.run, "step", n.step)
	}
}

// sendNotices delivers hints one by one until ctx is done.
func (s *Server) sendNotices(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-s.notices:
			s.sendNotice(ctx, n)
		}
	}
}

func (s *Server) sendNotice(ctx context.Context, n notice) {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	send, what := s.deps.Control.Claimed, "claimed"
	if n.completed {
		send, what = s.deps.Control.Completed, "completed"
	}
	if err := send(ctx, n.run, n.step); err != nil {
		s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "hint to workflow not delivered; the run looks by itself later",
			slog.String("run", string(n.run)), slog.Int64("step", int64(n.step)), slog.String("what", what), slog.Any("error", err))
	}
}
