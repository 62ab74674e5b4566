package diagnosisinput

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/telemetry"
)

// Record is what a simulation of a run is calibrated from: the newest steps that a diagnosis reads, and the events that
// are kept.
func (r Reader) Record(
	ctx context.Context, run rollout.RunName, steps []rollout.StepRecord,
) (*runrecord.Record, error) {
	status, err := r.Buffer.Status(ctx, run)
	if err != nil {
		return nil, err
	}
	record := &runrecord.Record{Format: runrecord.Format, Version: runrecord.Version, RecordedAt: time.Now().UTC(),
		Run: status, Steps: steps}
	if record.Departures, err = r.Buffer.Departures(ctx, run); err != nil {
		return nil, fmt.Errorf("count departures: %w", err)
	}
	if record.Engines, err = r.Registry.List(ctx); err != nil {
		return nil, fmt.Errorf("list engines: %w", err)
	}
	for _, scope := range []rollout.RunName{run, ""} { // the run's own events, then the fleet's
		events, err := r.allEvents(ctx, scope, status.StartedAt.Add(-clockSkew))
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		record.Events = append(record.Events, events...)
	}
	slices.SortStableFunc(record.Events, func(a, b telemetry.Event) int { return a.At.Compare(b.At) })
	record.LeaveOutOdd()
	return record, record.Validate()
}

// allEvents is the events of a scope since a time, samples among them as far as they are kept; what the step records
// say is left out.
func (r Reader) allEvents(ctx context.Context, scope rollout.RunName, since time.Time) ([]telemetry.Event, error) {
	var events []telemetry.Event
	after := fmt.Sprintf("%d-0", max(0, since.UnixMilli()))
	for {
		page, err := r.Events.Recent(ctx, scope, after, eventsPage)
		if err != nil {
			return nil, err
		}
		for _, one := range page {
			e, err := one.Event()
			if errors.Is(err, telemetry.ErrUnknownKind) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("event %s: %w", one.ID, err)
			}
			if _, step := e.Body.(telemetry.StepCompleted); !step && !e.At.Before(since) {
				events = append(events, e)
			}
		}
		if len(page) < eventsPage {
			return events, nil
		}
		after = page[len(page)-1].ID
	}
}
