package crashtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/observe/runsampler"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/trials/stack"
)

// waits is what became known of a run's waits, in seconds, without the prefill.
type waits struct {
	known    bool
	rows     float64 // in the series of its events
	labelled float64 // in its step records, by cause
	reported float64 // by its trainers
}

// waited reads what the service says of a run's waits, once it has compared all of them with what the trainer says.
func (s *service) waited(ctx context.Context, run rollout.RunName) (waits, error) {
	err := stack.Await(ctx, s.cfg.patient(stuckAfter), func(ctx context.Context) error {
		series, seen, err := runsampler.Waits(ctx, s.store, run, time.Now())
		if err == nil && !series.Complete(seen) {
			err = errors.New("it is not complete")
		}
		return err
	})
	if err != nil {
		return waits{}, fmt.Errorf("the account of its waits: %w", err)
	}
	w := waits{known: true}
	records, err := s.store.Steps(ctx, run, 0, 0)
	if err != nil {
		return waits{}, err
	}
	for _, r := range records {
		if r.Step == 0 {
			continue
		}
		w.reported += r.Trainer.Phases[steprecord.PhaseWait]
		for _, sec := range r.Service.StarvedBy {
			w.labelled += sec
		}
	}
	events := store.New(s.rdb, prefix, store.Limits{})
	for after := ""; ; {
		page, err := events.Recent(ctx, run, after, 1000)
		if err != nil {
			return waits{}, err
		}
		if len(page) == 0 {
			return w, nil
		}
		for _, r := range page {
			if e, err := r.Event(); err == nil {
				if level, is := e.Body.(telemetry.BufferLevel); is {
					w.rows += level.StarvedSec
				}
			}
		}
		after = page[len(page)-1].ID
	}
}

// starvation compares the series with the records. A trainer that was killed while it waited reported nothing of that
// wait, so that more may be counted than is reported, but never less.
func (f *findings) starvation(o outcome) {
	if !o.waits.known || o.rolledBack { // the series and records are no promise of a Redis that comes back older
		return
	}
	const share, slack = 0.01, 0.05
	w := o.waits
	if d := w.rows - w.labelled; d > share*w.labelled+slack || -d > share*w.labelled+slack {
		f.complain("the series of starvation adds up to %.2f s, the step records' waits to %.2f s", w.rows, w.labelled)
	}
	if w.labelled < (1-share)*w.reported-slack {
		f.complain("the trainers report %.2f s of waiting, the step records have %.2f s", w.reported, w.labelled)
	}
}
