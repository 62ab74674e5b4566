package buffer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

var activityFields = []string{"granted", "next", "generation", "asked", "polled", "heard", "beats", "usual",
	"ended_at", "ended"}

// TrainerActivity reads when the run's trainer was heard of.
func (s *Store) TrainerActivity(ctx context.Context, run rollout.RunName) (runstatus.TrainerActivity, error) {
	r, err := s.runFields(ctx, run, activityFields...)
	if err != nil {
		return runstatus.TrainerActivity{}, err
	}
	return readActivity(r)
}

func readActivity(r reply) (a runstatus.TrainerActivity, err error) {
	a.Step, a.Next, a.Generation = rollout.Step(r.int(0)), rollout.Step(r.int(1)), rollout.TrainerGeneration(r.int(2))
	for i, into := range []*time.Time{&a.First, &a.Last, &a.Heard} {
		if *into, err = readStamp(r.str(3 + i)); err != nil {
			return a, fmt.Errorf("read when the trainer was heard of: %w", err)
		}
	}
	a.Beats = r.str(6) != ""
	if r.str(8) == r.str(5) { // else it was heard of again
		a.Ended = r.str(9)
	}
	if usual := r.str(7); usual != "" {
		a.UsualSec, err = strconv.ParseFloat(usual, 64)
	}
	return a, err
}

// Heartbeat notes that a trainer lives or, where ended is not empty, why it ends. One that another trainer has replaced
// is told so.
func (s *Store) Heartbeat(
	ctx context.Context, run rollout.RunName, generation rollout.TrainerGeneration, ended string,
) error {
	r, err := s.eval(ctx, heartbeatScript, run, int64(generation), stamp(s.now()), ended)
	switch {
	case err != nil:
		return fmt.Errorf("note a heartbeat: %w", err)
	case r.code() == rollout.Fenced:
		return fenced(run, generation, r.int(1))
	}
	return nil
}
