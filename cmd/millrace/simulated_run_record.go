package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/kit/version"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// recordOf is a simulated run as millrace run record would write it of a live one, as far as a simulation knows.
func recordOf(s sim.Setup, r sim.Result) *runrecord.Record {
	record := &runrecord.Record{
		Format: runrecord.Format, Version: runrecord.Version,
		Recorder: "millrace simulate, " + version.String(), Run: r.Status, Departures: r.Input.Departures,
		Steps: slices.Clone(r.Input.Records),
		Gaps:  []string{"the run is simulated: there are no events and no samples of engines and queues"},
	}
	record.Run.Spec = s.Spec
	var ended time.Time
	for _, step := range record.Steps {
		ended = step.Service.CompletedAt
	}
	record.RecordedAt = ended
	for i := range s.Fleet.Engines {
		record.Engines = append(record.Engines, enginestate.Engine{
			ID: rollout.EngineID(fmt.Sprintf("engine-%d", i)), State: enginestate.EngineReady, Models: []string{s.Model},
			MaxInFlight: cmp.Or(s.Fleet.MaxInFlight, sim.DefaultMaxInFlight), AdapterSlots: s.Fleet.MaxLoRAs,
			Version: "simulated, " + s.Fleet.Profile,
		})
	}
	return record
}
