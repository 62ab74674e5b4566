package runsampler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// windAtOnce bounds how many runs are wound up in a turn: the first time it may be all that have ever ended.
const windAtOnce = 256

// windUpAll winds up the runs that are over.
func (s *Sampler) windUpAll(ctx context.Context, now time.Time) error {
	runs, err := s.buffer.Winding(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for i := range min(windAtOnce, len(runs)) {
		run := runs[(s.wound+i)%len(runs)] // others each turn, should some of them fail again and again
		if err := s.windUp(ctx, run, now); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run, err))
		}
	}
	s.wound += windAtOnce
	return errors.Join(faults...)
}

// lastWords is how long after the end of a run workers may still report what its last requests have used.
const lastWords = 15 * time.Second

// windUp writes the remaining facts of a run that is over. Then the run is not looked at any more.
func (s *Sampler) windUp(ctx context.Context, run rollout.RunName, now time.Time) error {
	done, err := s.finish(ctx, run, now)
	if err == nil && done {
		var status runstatus.RunStatus
		status, err = s.buffer.Status(ctx, run)
		done = now.Sub(status.EndedAt) > lastWords
	}
	if rollout.Refused(err, rollout.NoSuchRun) {
		done, err = true, nil
	}
	if err != nil || !done {
		return err
	}
	return s.buffer.WoundUp(ctx, run)
}

// finish continues the account of a run that is over: the record of its last step is compared, too.
func (s *Sampler) finish(ctx context.Context, run rollout.RunName, now time.Time) (done bool, err error) {
	was, seen, err := Waits(ctx, s.buffer, run, now)
	if err != nil {
		return false, err
	}
	seen.Asked = time.Time{} // no batch is given out any more
	if was.Complete(seen) {
		return true, s.tokens.Tell(ctx, run, now, s.alive, true)
	}
	counts, err := s.buffer.Counts(ctx, run)
	if err != nil {
		return false, err
	}
	next, spans, closed := was.Next(seen)
	events := levels(run, now, telemetry.BufferLevel{Counts: counts}, spans)
	return false, s.continueWaits(ctx, run, was, next, closed, events[:len(events)-1])
}
