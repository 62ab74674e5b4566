package recordinput

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// SumUp keeps about the newest steps of a record and replaces older ones, and their games, by a summary, so that the
// record of a long run stays small; 0 keeps all.
func SumUp(r *runrecord.Record, newest int) error {
	var older diagnosis.Older
	steps, first := r.Steps, 0
	for newest > 0 && len(steps)-first >= max(newest+diagnosis.OlderBlock, diagnosis.OlderSteps) {
		older = diagnosis.SumUp(older.From(steps[first].Step), steps[first:first+diagnosis.OlderSteps])
		for steps[first].Step < older.To {
			first++
		}
	}
	if first == 0 {
		return nil
	}
	data, err := json.Marshal(older)
	if err != nil {
		return err
	}
	since := steps[first].Service.FirstAskedAt
	r.Steps, r.Older = slices.Clone(steps[first:]), data
	r.Events = slices.DeleteFunc(r.Events, func(e telemetry.Event) bool {
		switch e.Body.(type) {
		case telemetry.EpisodeFinished, telemetry.EpisodeFailed, telemetry.GroupReady, telemetry.BatchClaimed:
			return e.At.Before(since)
		case telemetry.AdapterChanged, telemetry.AdapterLoaded, telemetry.AlarmChanged, telemetry.Audit,
			telemetry.BreakerChanged, telemetry.BufferLevel, telemetry.Diagnosed, telemetry.DispatchSample,
			telemetry.EngineChanged, telemetry.EnginePaced, telemetry.EngineSample, telemetry.FleetMeasured,
			telemetry.FleetScaled, telemetry.GroupDropped, telemetry.ProviderChanged,
			telemetry.PolicyPublished, telemetry.RewardVarianceChanged, telemetry.RunChanged,
			telemetry.SinkChanged, telemetry.StepCompleted, telemetry.TokenRates:
		}
		return e.Droppable() && e.At.Before(since)
	})
	r.Gaps = append(r.Gaps, fmt.Sprintf("steps before %d are summed up, their games and samples left out", older.To))
	return nil
}
