package calibration_test

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
	"github.com/millrace/millrace/internal/simulate/sim/prediction"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// recordOf is the record that a live run would leave which went as the simulated one.
func recordOf(s sim.Setup, result sim.Result) *runrecord.Record {
	r := &runrecord.Record{
		Format: runrecord.Format, Version: runrecord.Version,
		Run: runstatus.RunStatus{Spec: s.Spec, State: runstatus.RunCompleted}, Steps: result.Input.Records,
	}
	for range s.Fleet.Engines {
		r.Engines = append(r.Engines, enginestate.Engine{MaxInFlight: s.Fleet.MaxInFlight, AdapterSlots: s.Fleet.MaxLoRAs})
	}
	if full := float64(s.Fleet.MaxNumSeqs); full > 0 { // samples of engines that are full
		for range 5 {
			r.Events = append(r.Events, telemetry.Event{Engine: "engine-0", Body: telemetry.EngineSample{
				Load: enginestate.EngineLoad{Running: full, Waiting: 2},
			}})
		}
	}
	return r
}

// otherRun is a run of other games than the demo's, on another engine.
func otherRun(change func(*sim.Setup)) sim.Setup {
	s := sim.DefaultSetup()
	s.Name, s.Model, s.Steps, s.Seed = "other", "some-model", 13, 7
	s.Group.Samples, s.Group.MinSamples = 4, 4
	s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Buffer.MaxStaleness = 2, 6, 4
	s.Fleet = sim.Fleet{Engines: 3, Profile: "a100-80gb", TimeFactor: 1.6, MaxInFlight: 64, MaxLoRAs: 8}
	s.Trainer = sim.Trainer{
		Load: rollout.Duration(2 * time.Second), Train: rollout.Duration(20 * time.Second),
		Publish: rollout.Duration(3 * time.Second),
	}
	s.Workload = sim.Workload{Distribution: &workload.Distribution{
		Phases: workload.Spread{Mean: 16, Spread: 0.4}, Agents: workload.Spread{Mean: 2},
		Prompt: workload.Spread{Mean: 900, Spread: 0.2}, Growth: 40, Output: workload.Spread{Mean: 90, Spread: 0.5},
		Env: workload.Spread{Mean: 0.2}, Shared: workload.SharedTokens{System: 300, Game: 800},
	}}
	s.Overheads = sim.Overheads{
		Call: rollout.Duration(40 * time.Millisecond), Phase: rollout.Duration(20 * time.Millisecond),
		Launch: rollout.Duration(300 * time.Millisecond), Commit: rollout.Duration(50 * time.Millisecond),
		Claim: rollout.Duration(20 * time.Millisecond),
	}
	change(&s)
	return s
}

// TestWhatIsKnownIsFound: from the records of simulated runs, whose parameters are known, calibration finds engines
// that are as fast, and predicts the same run with other engines and another depth.
func TestWhatIsKnownIsFound(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("some dozen simulated runs are slow under the race detector; run without -short")
	}
	for _, tt := range []struct {
		name   string
		change func(*sim.Setup)
	}{
		{"games wait for one another", func(*sim.Setup) {}},
		{"engines are full", func(s *sim.Setup) { s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight, s.Group.Samples = 3, 5, 8 }},
		{"slow calls", func(s *sim.Setup) { s.Overheads.Call = rollout.Duration(200 * time.Millisecond) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			truth := otherRun(tt.change)
			result, err := sim.Run(t.Context(), truth, sim.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, err := calibration.Calibrate(t.Context(), recordOf(truth, result), calibration.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range c.Parameters {
				t.Logf("%-24s %-14s %-9s %s", p.Name, p.Value, p.From, p.How)
			}
			if f := c.Setup.Fleet.TimeFactor / truth.Fleet.TimeFactor; math.Abs(f-1) > 0.1 {
				t.Errorf("a time factor of %.3f, %.3f was simulated", c.Setup.Fleet.TimeFactor, truth.Fleet.TimeFactor)
			}
			for _, v := range []prediction.Variant{
				{Name: "as it is", Change: func(*sim.Setup) {}},
				{Name: "five engines", Change: func(s *sim.Setup) { s.Fleet.Engines = 5 }},
				{Name: "one engine", Change: func(s *sim.Setup) { s.Fleet.Engines = 1 }},
				{Name: "depth 4", Change: func(s *sim.Setup) { s.Buffer.Depth = 4 }},
			} {
				other := truth
				v.Change(&other)
				again, err := sim.Run(t.Context(), other, sim.Options{})
				if err != nil {
					t.Fatal(err)
				}
				p, err := prediction.Predict(t.Context(), c, v, recordOf(other, again))
				if err != nil {
					t.Fatal(err)
				}
				t.Log(p)
				if err := p.Fault(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
