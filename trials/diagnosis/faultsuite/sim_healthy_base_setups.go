package faultsuite

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// setup is a healthy run of package sim: profiled engines, and the service's own decisions. The engines run so many
// requests at once as they are given, and need three quarters of the trainer's time for a batch.
func setup(scale int) sim.Setup {
	s := sim.Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps = "run", "base", 400
	s.Group = runspec.GroupSpec{Samples: 4, MinSamples: 4}
	s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Buffer.MaxStaleness = 2, 8*scale, 2
	s.Timeouts.Phase = rollout.Duration(time.Hour)
	s.Timeouts.Completion = rollout.Duration(time.Hour)
	s.Timeouts.Episode = rollout.Duration(4 * time.Hour)
	s.Fleet = sim.Fleet{Engines: 4 * scale, Profile: "a100-80gb", TimeFactor: 1, MaxNumSeqs: 12, MaxInFlight: 12}
	s.Trainer = sim.Trainer{Load: seconds(3), RefLogprobs: seconds(35), Train: seconds(85), Publish: seconds(7),
		Variation: 0.03}
	s.Workload.Distribution = &workload.Distribution{
		Phases: workload.Spread{Mean: 8, Spread: 0.2}, Agents: workload.Spread{Mean: 3},
		Prompt: workload.Spread{Mean: 4000, Spread: 0.2}, Output: workload.Spread{Mean: 250, Spread: 0.3},
		Env: workload.Spread{Mean: 0.2}, Shared: workload.SharedTokens{System: 300, Group: 1500, Game: 2800},
		StragglerFactor: 1,
	}
	s.Overheads = sim.Overheads{Call: seconds(0.005), Phase: seconds(0.005), Launch: seconds(0.05), Commit: seconds(0.02)}
	return s
}

// filledSetup is the same on engines with more slots than the run ever fills: its batch slows them down, as far as they
// can go.
func filledSetup(scale int) sim.Setup {
	s := setup(scale)
	s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 256, 256
	s.Fleet.Engines = 2 * scale
	s.Trainer.RefLogprobs, s.Trainer.Train = seconds(33), seconds(82)
	return s
}

// longSetup is few long games on engines that are hardly used: a batch takes a little less than depth steps.
func longSetup(scale int) sim.Setup {
	s := setup(scale)
	s.Group = runspec.GroupSpec{Samples: 3, MinSamples: 3}
	s.Buffer.GroupsPerStep = 2 * scale
	s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 64, 64
	d := s.Workload.Distribution
	d.Phases, d.Output.Mean, d.Output.Spread, d.Env.Mean = workload.Spread{Mean: 40, Spread: 0.05}, 150, 0.15, 1
	return s
}

// placesSetup has workers with few places for games, and engines that are hardly used.
func placesSetup(scale int) sim.Setup {
	s := setup(scale)
	s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 64, 64
	s.Overheads.Slots = 26 * scale
	return s
}

func seconds(sec float64) rollout.Duration { return rollout.Duration(sec * float64(time.Second)) }
