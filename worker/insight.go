package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/alarm"
	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// maxDiagnosed is how many of the newest steps a diagnosis reads, as the detector of level shifts advises.
const maxDiagnosed = 500

// factsPage is how many events a diagnosis reads at once.
const factsPage = 5_000

// clockSkew is how far the clocks of Redis and of whoever reports an event may be apart.
const clockSkew = time.Minute

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
	in := diagnosis.Input{
		Spec: status.Spec, Over: status.State.Over(), Records: records, Loads: []diagnosis.AdapterLoad{}, Signal: status.Signal, Throttle: status.Throttle,
	}
	if in.Departures, err = b.Buffer.Departures(ctx, run); err != nil {
		return diagnosis.Report{}, fmt.Errorf("count departures: %w", err)
	}
	since := status.StartedAt
	if from > 0 && len(records) > 0 { // what happened before the steps that are looked at explains none of them
		since = records[0].Service.FirstAskedAt
	}
	if in.Alarms, err = b.alarms(ctx, status); err != nil {
		return diagnosis.Report{}, fmt.Errorf("look for alarms: %w", err)
	}
	for _, scope := range []rollout.RunName{run, ""} { // the run's own events, then the fleet's
		if err := b.readFacts(ctx, &in, scope, since); err != nil {
			return diagnosis.Report{}, fmt.Errorf("read events: %w", err)
		}
	}
	slices.SortStableFunc(in.Events, func(a, b diagnosis.Event) int { return a.At.Compare(b.At) })
	return diagnosis.Diagnose(in), nil
}

// alarms is what keeps a run's games from being played now.
func (b *Backend) alarms(ctx context.Context, status rollout.RunStatus) ([]rollout.Alarm, error) {
	tries, err := b.Buffer.Tries(ctx, status.Spec.Name)
	if err != nil {
		return nil, err
	}
	workers, err := b.Workers.List(ctx)
	if err != nil {
		return nil, err
	}
	engines, err := b.Registry.List(ctx)
	if err != nil {
		return nil, err
	}
	return alarm.Of(alarm.Evidence{Now: time.Now(), Run: status, Tries: tries, Workers: workers, Engines: engines}), nil
}

// readFacts adds all events of a scope since a time, page by page.
func (b *Backend) readFacts(ctx context.Context, in *diagnosis.Input, scope rollout.RunName, since time.Time) error {
	after := fmt.Sprintf("%d-0", max(0, since.Add(-clockSkew).UnixMilli())) // ids are by the clock of Redis
	for {
		facts, err := b.Events.Facts(ctx, scope, after, factsPage)
		if err != nil {
			return err
		}
		if err := addFacts(in, facts, since); err != nil {
			return err
		}
		if len(facts) < factsPage {
			return nil
		}
		after = facts[len(facts)-1].ID
	}
}

// addFacts turns events since a time into what diagnosis compares with step times. Events of a kind that only another
// version of the program knows say nothing here.
func addFacts(in *diagnosis.Input, facts []store.Record, since time.Time) error {
	for _, f := range facts {
		e, err := f.Event()
		if errors.Is(err, telemetry.ErrUnknownKind) {
			continue
		}
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
		case telemetry.GroupDropped:
			in.Drops = append(in.Drops, diagnosis.Drop{At: e.At, Code: body.Code})
		case telemetry.SignalChanged:
			in.Signals = append(in.Signals, diagnosis.SignalChange{At: e.At, Signal: body.Signal})
		case telemetry.RunChanged:
			in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: changeKind(body.Change), Text: body.Change})
		case telemetry.EngineChanged:
			in.Events = append(in.Events, engineEvent(e, body))
		case telemetry.EnginePaced:
			text := fmt.Sprintf("engine %s is no longer slow", e.Engine)
			if body.Slow != "" {
				text = fmt.Sprintf("engine %s is slow: %s", e.Engine, body.Slow)
			}
			in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: diagnosis.EventOther, Text: text})
		case telemetry.StepCompleted, telemetry.BatchClaimed, telemetry.GroupReady, telemetry.EpisodeFinished: // the step records tell
		case telemetry.AlarmChanged, telemetry.EpisodeFailed: // alarms are looked for afresh
		case telemetry.Audit, telemetry.AdapterChanged, telemetry.PolicyPublished, telemetry.BreakerChanged: // they change no step by themselves
		case telemetry.BufferLevel, telemetry.EngineSample, telemetry.DispatchSample: // samples are no facts
		}
	}
	return nil
}

// changeKind tells what an operator did from what a run notes of itself.
func changeKind(change string) diagnosis.EventKind {
	for part := range strings.SplitSeq(change, "; ") {
		switch verb, _, _ := strings.Cut(part, " "); verb {
		case "start", "set", "pause", "resume", "stop":
			return diagnosis.EventConfig
		}
	}
	return diagnosis.EventOther
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
