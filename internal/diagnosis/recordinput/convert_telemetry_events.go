package recordinput

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Add turns one event into what diagnosis compares with step times. Kinds that say nothing about steps are left out.
func Add(in *diagnosis.Input, e telemetry.Event) {
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
		ev := engineEvent(e, body)
		if ev.Kind == diagnosis.EventEngineLost && neverServed(in, e.Engine) {
			ev.Kind = diagnosis.EventOther
		}
		in.Events = append(in.Events, ev)
	case telemetry.EnginePaced:
		text := fmt.Sprintf("engine %s is no longer slow", e.Engine)
		if body.Slow != "" {
			text = fmt.Sprintf("engine %s is slow: %s", e.Engine, body.Slow)
		}
		in.Events = append(in.Events, diagnosis.Event{At: e.At, Kind: diagnosis.EventOther, Text: text})
	case telemetry.FleetScaled:
		addAct(in, e, body)
	case telemetry.FleetMeasured:
		measureAct(in, body)
	case telemetry.ProviderChanged: // it changes no step by itself
	case telemetry.StepCompleted, telemetry.BatchClaimed, telemetry.GroupReady, telemetry.EpisodeFinished:
		// the step records tell
	case telemetry.AlarmChanged, telemetry.EpisodeFailed: // alarms are looked for again
	case telemetry.Audit, telemetry.AdapterChanged, telemetry.PolicyPublished, telemetry.BreakerChanged,
		telemetry.SinkChanged, telemetry.Diagnosed:
		// they change no step by themselves
	case telemetry.BufferLevel, telemetry.EngineSample, telemetry.DispatchSample, telemetry.TokenRates: // series
	}
}

func engineEvent(e telemetry.Event, body telemetry.EngineChanged) diagnosis.Event {
	text := fmt.Sprintf("engine %s is %s", e.Engine, body.State)
	if body.Reason != "" {
		text += ": " + body.Reason
	}
	kinds := map[enginestate.EngineState]diagnosis.EventKind{
		enginestate.EngineReady:    diagnosis.EventEngineJoined,
		enginestate.EngineLost:     diagnosis.EventEngineLost,
		enginestate.EngineDraining: diagnosis.EventEngineLeft,
	}
	kind, known := kinds[body.State]
	if !known {
		kind = diagnosis.EventOther
	}
	return diagnosis.Event{At: e.At, Kind: kind, Text: text}
}

// neverServed reports whether an engine is known to have joined and not to have been ready since: one that does not
// answer yet is no engine less.
func neverServed(in *diagnosis.Input, id rollout.EngineID) bool {
	is := fmt.Sprintf("engine %s is ", id)
	for _, ev := range slices.Backward(in.Events) {
		state, ofIt := strings.CutPrefix(ev.Text, is)
		switch {
		case !ofIt:
		case ev.Kind == diagnosis.EventEngineJoined:
			return false
		case strings.HasPrefix(state, string(enginestate.EngineStarting)):
			return true
		}
	}
	return false
}
