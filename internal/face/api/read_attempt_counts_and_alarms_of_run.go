package api

import (
	"context"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/run/alarm"
)

// situation is how a run's attempts have ended, and what stops its games.
func (s *Server) situation(ctx context.Context, status runstatus.RunStatus) (runstatus.AttemptCounts,
	[]runstatus.Alarm, error) {
	attempts, err := s.deps.Store.AttemptCounts(ctx, status.Spec.Name)
	if err != nil {
		return attempts, nil, err
	}
	workers, err := s.deps.Workers.List(ctx)
	if err != nil {
		return attempts, nil, err
	}
	engines, err := s.deps.Fleet.List(ctx)
	if err != nil {
		return attempts, nil, err
	}
	trainer, err := s.deps.Store.TrainerActivity(ctx, status.Spec.Name)
	if err != nil {
		return attempts, nil, err
	}
	evidence := alarm.Evidence{Now: s.deps.Now(), Run: status, Attempts: attempts, Workers: workers, Engines: engines,
		Trainer: trainer}
	if evidence.Unplayed, evidence.UnplayedSince, err = s.deps.Mail.Unplayed(ctx, status.Spec); err != nil {
		return attempts, nil, err
	}
	view, scaled, err := s.deps.Fleet.Scaling(ctx)
	if err != nil {
		return attempts, nil, err
	}
	if scaled && view.EndedAt.IsZero() {
		evidence.Scaling = &view
	}
	return attempts, alarm.Of(evidence), nil
}
