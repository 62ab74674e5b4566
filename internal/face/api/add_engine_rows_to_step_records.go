package api

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

const (
	// engineRowsLate is how long after a moment the engines' rows have it at the latest: a stretch, a look, and some.
	engineRowsLate = 2 * enginestate.LoadStretch * time.Second
	// lateSteps bounds the steps that are looked through for such whose rows came late.
	lateSteps = 32
)

// keepEngines adds to the step's record what each engine did for it. Like the fleet's sums it never fails a call.
func (s *Server) keepEngines(ctx context.Context, run rollout.RunName, step rollout.Step, from, to time.Time) {
	if !from.Before(to) {
		return
	}
	engines, err := s.deps.Engines(ctx, run, from, to)
	if err == nil {
		err = s.deps.Store.KeepEngines(ctx, run, step, engines)
	}
	if err != nil {
		s.deps.Log.Warn("engines of a step", "request_id", requestID(ctx), "run", run, "step", step, "error", err)
	}
}

// keepLateEngines keeps the rows of earlier steps that completed before all their rows were there, as in a fast run. It
// does so once per step, when the rows are complete.
func (s *Server) keepLateEngines(ctx context.Context, run rollout.RunName, step rollout.Step) {
	if step == 0 {
		return
	}
	before, err := s.deps.Store.Step(ctx, run, step-1)
	if err != nil || before.Service.CompletedAt.Sub(before.Service.GrantedAt) >= engineRowsLate {
		return // its rows were there; those of the steps before it, too
	}
	records, err := s.deps.Store.Steps(ctx, run, max(0, step-lateSteps), lateSteps)
	if err != nil {
		s.deps.Log.Warn("engines of earlier steps", "request_id", requestID(ctx), "run", run, "error", err)
		return
	}
	now := s.deps.Now()
	for i := 1; i < len(records); i++ {
		one, from := records[i].Service, records[i-1].Service.GrantedAt
		whole := one.GrantedAt.Add(engineRowsLate)
		if records[i].Step >= step || from.IsZero() || whole.After(now) || !whole.After(before.Service.CompletedAt) {
			continue // still to come, or done when the step before this one was completed
		}
		s.keepEngines(ctx, run, records[i].Step, from, one.GrantedAt)
	}
}
