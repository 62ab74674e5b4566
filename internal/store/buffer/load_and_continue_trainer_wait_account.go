package buffer

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// StarvationSeries is what ContinueStarvation kept last, empty at first, and how the trainer asks for its batch.
func (s *Store) StarvationSeries(ctx context.Context, run rollout.RunName) (series []byte,
	asked runstatus.TrainerActivity, err error) {
	r, err := s.runFields(ctx, run, append(activityFields, "starved")...)
	if err != nil {
		return nil, runstatus.TrainerActivity{}, err
	}
	asked, err = readActivity(r)
	return []byte(r.str(len(activityFields))), asked, err
}

// ContinueStarvation continues the account of a run's waits from a revision on, keeps the seconds of the steps of which
// it is closed, by cause, and tells of it in the run's events, in one: of two that continue the same account only the
// first does, and the other one is answered false.
func (s *Store) ContinueStarvation(ctx context.Context, run rollout.RunName, revision int64, series []byte,
	closed map[rollout.Step]map[steprecord.StarvationCause]float64, events []telemetry.Event) (bool, error) {
	args := []any{revision, series, len(closed)}
	for step, sec := range closed {
		labels, err := json.Marshal(sec)
		if err != nil {
			return false, fmt.Errorf("continue the account of waits: %w", err)
		}
		args = append(args, int64(step), labels)
	}
	for _, e := range events {
		b, err := telemetry.Encode(e)
		if err != nil {
			return false, fmt.Errorf("continue the account of waits: %w", err)
		}
		kept := "f"
		if e.Droppable() {
			kept = "s"
		}
		args = append(args, kept, e.Kind(), b)
	}
	return s.did(ctx, "continue the account of waits", starvedScript, run, args...)
}
