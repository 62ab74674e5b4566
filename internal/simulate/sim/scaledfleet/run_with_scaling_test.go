package scaledfleet

import (
	"context"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

const second = rollout.Duration(time.Second)

// seed004 is a run like that of the seed note, on so many engines: six phases, some five powers each.
func seed004(steps, engines int) sim.Setup {
	s := sim.Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps = "seed-004", "base", steps
	s.Group = runspec.GroupSpec{Samples: 6, MinSamples: 6}
	s.Fleet = sim.Fleet{Engines: engines, MaxNumSeqs: 1, MaxInFlight: 2}
	s.Trainer = sim.Trainer{Load: 2 * second, Train: 140 * second, Publish: 2 * second}
	s.Workload.Distribution = &workload.Distribution{
		Phases: workload.Spread{Mean: 6, Spread: 0.1}, Agents: workload.Spread{Mean: 5.2},
		Output: workload.Spread{Mean: 26, Spread: 0.2}, Prompt: workload.Spread{Mean: 440, Spread: 0.05}, Growth: 8,
		Shared: workload.SharedTokens{System: 200, Group: 300, Game: 360},
	}
	s.Overheads = sim.Overheads{Call: second / 200, Phase: second / 200, Launch: second / 20, Commit: second / 50}
	return s
}

// outcome is a run and what became of its fleet.
type outcome struct {
	sim.Result
	Scaled
}

// scaledSeed004 is the run of the seed note, whose engines are started and ended by a machine.
func scaledSeed004(t *testing.T, cfg scaling.Config, life func(int) time.Duration) outcome {
	t.Helper()
	s := seed004(16, 1)
	s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 1, 2
	s.Fleet.ColdStart = rollout.Duration(time.Minute)
	r, scaled, err := Run(context.Background(), s, sim.Options{}, Scaling{Config: cfg, Life: life})
	if err != nil {
		t.Fatal(err)
	}
	return outcome{r, scaled}
}

// Starvation comes near the steps of a fleet that was large enough from the beginning, and pays for no more.
func TestScaledFleetReachesTheTrainersPace(t *testing.T) {
	t.Parallel()
	const most = 8
	fixed := scaledSeed004(t, scaling.Config{Policy: scaling.Fixed, Engines: most, Min: 1, Max: most}, nil)
	least := scaledSeed004(t, scaling.Config{Policy: scaling.Fixed, Engines: 1, Min: 1, Max: most}, nil)
	scaled := scaledSeed004(t, scaling.Config{Policy: scaling.Starvation, Min: 1, Max: most}, nil)
	if n := len(fixed.Scaled.Decisions); n != 0 {
		t.Errorf("a fixed fleet made %d decisions", n)
	}
	if len(scaled.Scaled.Decisions) == 0 {
		t.Fatal("nothing was decided")
	}
	last := func(r outcome) float64 { return r.Input.Records[len(r.Input.Records)-1].StepSec() }
	if last(scaled) > 1.1*last(fixed) || last(least) < 1.5*last(fixed) {
		t.Errorf("the last step takes %.0f s; %.0f s with %d engines, and %.0f s with one", last(scaled), last(fixed), most,
			last(least))
	}
	if scaled.Scaled.EngineSec > 0.8*fixed.Scaled.EngineSec {
		t.Errorf("%.0f engine-seconds; %d engines took %.0f", scaled.Scaled.EngineSec, most, fixed.Scaled.EngineSec)
	}
}

// Engines that are lost are replaced, and the same setup takes the same course.
func TestLostEnginesAreReplaced(t *testing.T) {
	t.Parallel()
	life := func(no int) time.Duration { return time.Duration(20+7*(no%3)) * time.Minute }
	cfg := scaling.Config{Policy: scaling.Fixed, Engines: 3, Min: 1, Max: 8}
	r := scaledSeed004(t, cfg, life)
	if r.Scaled.Lost == 0 || r.Scaled.Started != 3+r.Scaled.Lost {
		t.Errorf("%d engines were lost and %d started", r.Scaled.Lost, r.Scaled.Started)
	}
	if again := scaledSeed004(t, cfg, life); !reflect.DeepEqual(again.Scaled, r.Scaled) || again.Wall != r.Wall {
		t.Errorf("%+v after %v, and before %+v after %v", again.Scaled, again.Wall, r.Scaled, r.Wall)
	}
}

// What a batch's latency allows is the same however few engines there are: time in the queue is no part of it. Most of
// that is before a game's first answer, when the game does not count as begun yet.
func TestLatencyIsToldWithoutTheQueue(t *testing.T) {
	t.Parallel()
	latency := func(engines int) (perDepth, queued float64) {
		s := seed004(6, engines)
		s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 1, 1
		games := *s.Workload.Distribution
		// Few engines would find more in their caches, and the request that waits longest is not the one with most to say.
		games.Shared, games.Output.Spread = workload.SharedTokens{}, 0
		s.Workload.Distribution = &games
		_, _, err := Run(context.Background(), s, sim.Options{}, Scaling{
			Config: scaling.Config{Policy: scaling.Fixed, Engines: engines, Min: 1, Max: engines},
			Decided: func(s scaling.Sample, _ []scaling.Command) {
				perDepth, queued = s.Runs[0].RD, max(queued, s.Queued)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return perDepth, queued
	}
	want, none := latency(400)
	got, queued := latency(8)
	if none > queued/10 {
		t.Fatalf("at most %.1f requests are queued at 400 engines, and %.1f at 8", none, queued)
	}
	if math.Abs(got/want-1) > 0.1 {
		t.Errorf("R/D is %.2f s with 8 engines, and %.2f s where nobody queues", got, want)
	}
}
