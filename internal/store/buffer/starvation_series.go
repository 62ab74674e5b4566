package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/starvation"
)

// Starvation is the state of a run's wait account, and the inputs to continue it. The caller sets Missing.
func (s *Store) Starvation(ctx context.Context, run rollout.RunName, now time.Time) (starvation.Series, starvation.Seen,
	error) {
	fail := func(err error) (starvation.Series, starvation.Seen, error) {
		return starvation.Series{}, starvation.Seen{}, fmt.Errorf("read the account of waits: %w", err)
	}
	r, err := s.runFields(ctx, run, "starved", "granted", "next", "asked", "polled")
	if err != nil {
		return fail(err)
	}
	granted := rollout.Step(r.int(1))
	seen := starvation.Seen{Now: now, Next: rollout.Step(r.int(2))}
	series := starvation.Series{Step: granted, Record: seen.Next}
	if text := r.str(0); text != "" {
		if err := json.Unmarshal([]byte(text), &series); err != nil {
			return fail(err)
		}
	}
	for i, into := range []*time.Time{&seen.Asked, &seen.Last} {
		if *into, err = readStamp(r.str(3 + i)); err != nil {
			return fail(err)
		}
	}
	from := series.From()
	seen.Until = min(granted, from+starvation.MaxSteps)
	seen.More = seen.Until < granted
	if seen.Until > from {
		if seen.Steps, err = s.Steps(ctx, run, from, int(seen.Until-from)); err != nil {
			return fail(err)
		}
	}
	return series, seen, nil
}

// Awaited describes the groups that a run's next batch waits for: the buffer's part of starvation.Evidence.
func (s *Store) Awaited(ctx context.Context, run rollout.RunName, most int) (starvation.Evidence, error) {
	r, err := s.eval(ctx, awaitedScript, run, most)
	if err != nil {
		return starvation.Evidence{}, fmt.Errorf("look at the groups that a batch waits for: %w", err)
	}
	e := starvation.Evidence{Need: int(r.int(1)), Ready: int(r.int(2)), Launch: int(r.int(3))}
	groups := r.list(4)
	for i := 0; i+2 < len(groups); i += 3 {
		e.Playing = append(e.Playing, starvation.Group{
			InFlight: groups.int(i) == 1, Begun: int(groups.int(i + 1)), Finished: int(groups.int(i + 2)),
		})
	}
	return e, nil
}

// ContinueStarvation saves the continued account of a run's waits together with its event. If two callers continue the
// same account, only the first succeeds, and the other gets false.
func (s *Store) ContinueStarvation(ctx context.Context, run rollout.RunName, was, next starvation.Series,
	closed []starvation.Counted, events []telemetry.Event) (bool, error) {
	series, err := json.Marshal(next)
	if err != nil {
		return false, fmt.Errorf("continue the account of waits: %w", err)
	}
	args := []any{was.Revision, series, len(closed)}
	for _, c := range closed {
		labels, err := json.Marshal(c.Sec)
		if err != nil {
			return false, fmt.Errorf("continue the account of waits: %w", err)
		}
		args = append(args, int64(c.Step), labels)
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
