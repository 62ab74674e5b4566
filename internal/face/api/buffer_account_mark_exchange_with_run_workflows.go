package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// A trainer is told nothing that an older Redis could undo before the run's workflow knows of it. While Temporal does
// not answer, trainers are told all the same, and the workflow later: until then only the servers that answered would
// notice the loss.
const (
	witnessPatience = time.Second // of one call whose answer waits for it
	witnessAgain    = time.Second // after which Temporal is tried again when it did not answer
	askAgainAfter   = 500 * time.Millisecond
	askedAtOnce     = 16          // runs
	answeredFor     = time.Minute // that a run has answered, or is not there, is remembered
)

// witness has the run's workflow know how far the account has come that this process has just seen. It reports whether
// the workflow was told.
func (s *Server) witness(ctx context.Context, run rollout.RunName) bool {
	mark, ok := s.deps.Store.Unwitnessed(run)
	if !ok || s.deps.Now().UnixNano() < s.tellAgainAt.Load() {
		return false
	}
	// The ranks of a trainer ask together, and one signal does for all.
	told, _, _ := s.witnessing.Do(fmt.Sprintf("%s/%d/%d", run, mark.Era, mark.Serial), func() (any, error) {
		return s.tellMark(context.WithoutCancel(ctx), run, mark), nil
	})
	return told.(bool)
}

func (s *Server) tellMark(ctx context.Context, run rollout.RunName, mark runstatus.Mark) bool {
	ctx, cancel := context.WithTimeout(ctx, witnessPatience)
	defer cancel()
	err := s.deps.Control.BufferChanged(ctx, run, mark)
	if err != nil && !rollout.Refused(err, rollout.NoSuchRun) { // a run without a workflow has nobody to tell
		s.tellAgainAt.Store(s.deps.Now().Add(witnessAgain).UnixNano())
		s.untold.Note(s.deps.Now(), fmt.Errorf("run %s: %w", run, err))
		return false
	}
	s.untold.Note(s.deps.Now(), nil)
	if err := s.deps.Store.Witnessed(ctx, run, mark); err != nil {
		s.deps.Log.WarnContext(ctx, "note what the run's workflow knows", "run", string(run), "error", err)
	}
	return true
}

// tellMarks tells workflows what they could not be told before, and asks those that did not answer, until ctx is done.
// Runs that do not answer hold up no mark.
func (s *Server) tellMarks(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	asking.Go(func() {
		for retry.Pause(ctx, witnessAgain) == nil {
			s.acquaintAgain(ctx)
			s.forgetCompared()
		}
	})
	for retry.Pause(ctx, witnessAgain) == nil {
		for _, run := range s.deps.Store.UnwitnessedRuns() {
			s.witness(ctx, run)
		}
	}
}

// acquaint has this process know how far a run's account has come before it first asks Redis for something that could
// do harm. A master of Redis that was cut off and is promoted again looks as if nothing had happened, to who has seen
// nothing else. Where nobody answers, calls go on without it, and the run is asked again until it answers.
func (s *Server) acquaint(ctx context.Context, run rollout.RunName) {
	if s.deps.Store.Knows(run) {
		return
	}
	if _, asked := s.acquainted.LoadOrStore(run, time.Time{}); asked {
		return
	}
	if err := s.askMark(ctx, run); err != nil {
		s.deps.Log.InfoContext(ctx, "the run's workflow does not say how far its account has come; it is asked again",
			"run", string(run), "error", err)
	}
}

// acquaintAgain asks the runs that did not answer, and forgets those that answered a while ago: what they said is
// known, or there is no such run.
func (s *Server) acquaintAgain(ctx context.Context) {
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	s.acquainted.Range(func(run, answered any) bool {
		switch at := answered.(time.Time); {
		case at.IsZero():
			asking.Go(func() error {
				_ = s.askMark(ctx, run.(rollout.RunName)) // it is asked every second, and once was said why
				return nil
			})
		case s.deps.Now().Sub(at) >= answeredFor:
			s.acquainted.Delete(run)
		}
		return ctx.Err() == nil
	})
	_ = asking.Wait()
}

// askMark asks a run's workflow how far it knows the account to have come. An account that is behind it is in doubt
// from then on.
func (s *Server) askMark(ctx context.Context, run rollout.RunName) error {
	ctx, cancel := context.WithTimeout(ctx, witnessPatience)
	defer cancel()
	mark, err := s.deps.Control.Mark(ctx, run)
	switch {
	case err == nil:
		s.deps.Store.Know(run, mark)
	case !rollout.Refused(err, rollout.NoSuchRun):
		return err
	}
	s.acquainted.Store(run, s.deps.Now())
	return nil
}
