package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// missed is what a trainer is told of a run that Redis does not know. While Temporal does not answer nobody opens it
// again, nor knows whether there is such a run: it is awaited. But a Redis that remembers earlier runs of the name has
// forgotten nothing.
func (s *Server) missed(ctx context.Context, run rollout.RunName, err error) error {
	missing := rollout.Refused(err, rollout.NoSuchRun)
	lost := missing && (run.Life() == 1 || s.deps.Store.Knows(run)) || buffer.Unconfirmed(err)
	if lost && !s.deps.Temporal() {
		s.deps.Store.Await(run)
	}
	return s.unlessItReturns(ctx, run, err)
}

// unlessItReturns is what anybody is told of a run that Redis does not know: where it was there a moment ago, or a
// trainer awaits it, Redis has forgotten it, and its workflow opens it again.
func (s *Server) unlessItReturns(ctx context.Context, run rollout.RunName, err error) error {
	if !rollout.Refused(err, rollout.NoSuchRun) || !s.deps.Store.MayReturn(ctx, run) {
		s.doubted(run, err)
		return err
	}
	s.compare(run)
	return rollout.Refuse(rollout.Unavailable, "Redis does not know run %s: it was emptied or restored, unless there is "+
		"no such run; what Temporal knows of it is brought back, which needs Temporal and a worker; ask again", run)
}
