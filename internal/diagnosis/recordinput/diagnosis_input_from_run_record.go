// Package recordinput makes the input of a diagnosis from a run's record, or from telemetry events. It serves both a
// server that reads its stores and a file that was brought from elsewhere. It concludes nothing; package diagnosis
// does. Start reading at Of, then Add.
package recordinput

import (
	"encoding/json"
	"fmt"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Of is the input of a recorded run's diagnosis.
func Of(r *runrecord.Record) (diagnosis.Input, error) {
	in := diagnosis.Input{
		Spec: r.Run.Spec, Over: r.Run.State.Over(), Records: r.Steps, Loads: []diagnosis.AdapterLoad{},
		Departures: r.Departures, RewardVariance: r.Run.RewardVariance, Throttle: r.Run.Throttle,
		Alarms: r.Alarms, NotLookedAt: append([]string{}, r.Gaps...),
	}
	in.AdapterSlots = enginestate.FewestSlots(r.Engines)
	for _, e := range r.Events {
		Add(&in, e)
	}
	if len(r.Older) > 0 {
		in.Older = &diagnosis.Older{}
		if err := json.Unmarshal(r.Older, in.Older); err != nil {
			return in, fmt.Errorf("older: %w", err)
		}
	}
	return in, nil
}
