package faultsuite

import (
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/telemetry"
)

// inputOf reads a record as a diagnosis does.
func inputOf(r *runrecord.Record) (diagnosis.Input, error) {
	if err := r.Validate(); err != nil {
		return diagnosis.Input{}, err
	}
	in := diagnosis.Input{Spec: r.Run.Spec, Over: r.Run.State.Over(), Records: r.Steps, Loads: []diagnosis.AdapterLoad{},
		Departures: r.Departures, RewardVariance: r.Run.RewardVariance, Throttle: r.Run.Throttle}
	kinds := map[rollout.EngineState]diagnosis.EventKind{
		rollout.EngineReady:    diagnosis.EventEngineJoined,
		rollout.EngineLost:     diagnosis.EventEngineLost,
		rollout.EngineDraining: diagnosis.EventEngineLeft,
	}
	for _, e := range r.Events {
		event := diagnosis.Event{At: e.At, Kind: diagnosis.EventOther}
		switch body := e.Body.(type) {
		case telemetry.AdapterLoaded:
			in.Loads = append(in.Loads, diagnosis.AdapterLoad{At: e.At, Engine: e.Engine, Sec: body.Sec})
			continue
		case telemetry.GroupDropped:
			in.Drops = append(in.Drops, diagnosis.Drop{At: e.At, Code: body.Code})
			continue
		case telemetry.RunChanged:
			event.Kind, event.Text = diagnosis.KindOfChange(body.Change), body.Change
		case telemetry.EngineChanged:
			event.Text = fmt.Sprintf("engine %s is %s", e.Engine, body.State)
			if kind, known := kinds[body.State]; known {
				event.Kind = kind
			}
		case telemetry.EnginePaced:
			event.Text = fmt.Sprintf("engine %s is no longer slow", e.Engine)
			if body.Slow != "" {
				event.Text = fmt.Sprintf("engine %s is slow: %s", e.Engine, body.Slow)
			}
		default:
			continue
		}
		in.Events = append(in.Events, event)
	}
	return in, nil
}
