package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// maxDiagnosed is how many of the newest steps a diagnosis reads, as the detector of level shifts advises.
const maxDiagnosed = 500

// maxFacts bounds the events that a diagnosis reads.
const maxFacts = 20_000

// Diagnose says why the run's steps take as long as they do, from Millrace's own records.
func (b *Backend) Diagnose(ctx context.Context, run rollout.RunName) (diagnosis.Report, error) {
	status, err := b.Buffer.Status(ctx, run)
	if err != nil {
		return diagnosis.Report{}, err
	}
	from := max(0, status.NextStep-maxDiagnosed)
	records, err := b.Buffer.Steps(ctx, run, from, maxDiagnosed)
	if err != nil {
		return diagnosis.Report{}, fmt.Errorf("read steps: %w", err)
	}
	in := diagnosis.Input{Spec: status.Spec, Records: records, Loads: []diagnosis.AdapterLoad{}}
	for _, scope := range []rollout.RunName{run, ""} { // the run's own events, then the fleet's
		facts, err := b.Events.Facts(ctx, scope, "", maxFacts)
		if err != nil {
			return diagnosis.Report{}, fmt.Errorf("read events: %w", err)
		}
		if err := addFacts(&in, facts, status.StartedAt); err != nil {
			return diagnosis.Report{}, err
		}
	}
	return diagnosis.Diagnose(in), nil
}

// addFacts turns events since the run began into what diagnosis compares with step times.
func addFacts(in *diagnosis.Input, facts []store.Record, since time.Time) error {
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			return fmt.Errorf("event %s: %w", f.ID, err)
		}
		if e.At.Before(since) {
			continue
		}
		switch body := e.Body.(type) {
		case telemetry.AdapterLoaded:
			if body.Failure == "" {
				in.Loads = append(in.Loads, diagnosis.AdapterLoad{At: e.At, Engine: e.Engine, Sec: body.Sec})
			}
		case telemetry.RunChanged:
			in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: diagnosis.EventConfig, Text: body.Change})
		case telemetry.EngineChanged:
			in.Events = append(in.Events, engineEvent(e, body))
		case telemetry.EnginePaced:
			text := fmt.Sprintf("engine %s is no longer slow", e.Engine)
			if body.Slow != "" {
				text = fmt.Sprintf("engine %s is slow: %s", e.Engine, body.Slow)
			}
			in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: diagnosis.EventOther, Text: text})
		}
	}
	return nil
}

func engineEvent(e telemetry.Event, body telemetry.EngineChanged) diagnosis.Event {
	text := fmt.Sprintf("engine %s is %s", e.Engine, body.State)
	if body.Reason != "" {
		text += ": " + body.Reason
	}
	kinds := map[rollout.EngineState]diagnosis.EventKind{
		rollout.EngineReady:    diagnosis.EventEngineJoined,
		rollout.EngineLost:     diagnosis.EventEngineLost,
		rollout.EngineDraining: diagnosis.EventEngineLeft,
	}
	kind, known := kinds[body.State]
	if !known {
		kind = diagnosis.EventOther
	}
	return diagnosis.Event{At: e.At, Kind: kind, Text: text}
}

// Stream is the event store in the API's words.
type Stream struct{ *store.Store }

// Recent lists events after the one with id after, oldest first.
func (s Stream) Recent(ctx context.Context, run rollout.RunName, after string, limit int) ([]api.Event, error) {
	records, err := s.Store.Recent(ctx, run, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]api.Event, len(records))
	for i, r := range records {
		events[i] = api.Event(r)
	}
	return events, nil
}

// Follow hands on every event until ctx is done or see fails.
func (s Stream) Follow(ctx context.Context, run rollout.RunName, after string, see func(api.Event) error) error {
	return s.Store.Follow(ctx, run, after, func(r store.Record) error {
		return see(api.Event(r))
	})
}
