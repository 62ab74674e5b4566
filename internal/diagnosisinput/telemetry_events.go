package diagnosisinput

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// eventsPage is how many events are read at once.
const eventsPage = 5_000

// clockSkew is how far the clocks of Redis and of whoever reports an event may be apart.
const clockSkew = time.Minute

// diagnosedKinds are the kinds of facts that addEvents makes something of. No others are read: there are hundreds of
// games in a step.
var diagnosedKinds = []string{
	telemetry.KindOf(telemetry.AdapterLoaded{}), telemetry.KindOf(telemetry.GroupDropped{}),
	telemetry.KindOf(telemetry.RewardVarianceChanged{}), telemetry.KindOf(telemetry.RunChanged{}),
	telemetry.KindOf(telemetry.EngineChanged{}), telemetry.KindOf(telemetry.EnginePaced{}),
}

// readEvents adds all events of a scope since a time, page by page.
func (r Reader) readEvents(ctx context.Context, in *diagnosis.Input, scope rollout.RunName, since time.Time) error {
	after := fmt.Sprintf("%d-0", max(0, since.Add(-clockSkew).UnixMilli())) // ids are by the clock of Redis
	for {
		facts, err := r.Events.Facts(ctx, scope, after, eventsPage, diagnosedKinds...)
		if err != nil {
			return err
		}
		if err := addEvents(in, facts, since); err != nil {
			return err
		}
		if len(facts) < eventsPage {
			return nil
		}
		after = facts[len(facts)-1].ID
	}
}

// addEvents turns events since a time into what diagnosis compares with step times. Events of a kind that only another
// version of the program knows say nothing here.
func addEvents(in *diagnosis.Input, facts []store.Record, since time.Time) error {
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
		case telemetry.RewardVarianceChanged:
			in.RewardVarianceChanges = append(in.RewardVarianceChanges,
				diagnosis.RewardVarianceChange{At: e.At, RewardVariance: body.RewardVariance})
		case telemetry.RunChanged:
			in.Events = append(in.Events,
				diagnosis.Event{At: e.At, Kind: diagnosis.KindOfChange(body.Change), Text: body.Change})
		case telemetry.EngineChanged:
			in.Events = append(in.Events, engineEvent(e, body))
		case telemetry.EnginePaced:
			text := fmt.Sprintf("engine %s is no longer slow", e.Engine)
			if body.Slow != "" {
				text = fmt.Sprintf("engine %s is slow: %s", e.Engine, body.Slow)
			}
			in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: diagnosis.EventOther, Text: text})
		case telemetry.StepCompleted, telemetry.BatchClaimed, telemetry.GroupReady, telemetry.EpisodeFinished:
			// the step records tell
		case telemetry.AlarmChanged, telemetry.EpisodeFailed: // alarms are looked for again
		case telemetry.Audit, telemetry.AdapterChanged, telemetry.PolicyPublished, telemetry.BreakerChanged,
			telemetry.SinkChanged:
			// they change no step by themselves
		case telemetry.BufferLevel, telemetry.EngineSample, telemetry.DispatchSample, telemetry.TokenRates: // series
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
