package fleetsample

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/scaledfleet"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

const inFlight = 4

// simulated plays a run on so many engines, and returns its records and what the simulator's own samples say last.
func simulated(t *testing.T, engines int, train time.Duration) (sim.Result, scaling.Sample) {
	t.Helper()
	s := sim.Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps = "run", "base", 20
	s.Group = runspec.GroupSpec{Samples: 4, MinSamples: 4}
	s.Fleet = sim.Fleet{Engines: engines, MaxNumSeqs: inFlight, MaxInFlight: inFlight}
	s.Trainer = sim.Trainer{Load: 2e9, Train: rollout.Duration(train), Publish: 2e9}
	s.Workload.Distribution = &workload.Distribution{
		Phases: workload.Spread{Mean: 6, Spread: 0.1}, Agents: workload.Spread{Mean: 5.2},
		Output: workload.Spread{Mean: 26, Spread: 0.2}, Prompt: workload.Spread{Mean: 440, Spread: 0.05}, Growth: 8,
		Shared: workload.SharedTokens{System: 200, Group: 300, Game: 360},
	}
	s.Overheads = sim.Overheads{Call: 5e6, Phase: 5e6, Launch: 5e7, Commit: 2e7}
	var last scaling.Sample
	result, _, err := scaledfleet.Run(context.Background(), s, sim.Options{}, scaledfleet.Scaling{
		Config:  scaling.Config{Policy: scaling.Fixed, Engines: engines, Min: 1, Max: engines},
		Decided: func(s scaling.Sample, _ []scaling.Command) { last = s },
	})
	if err != nil {
		t.Fatal(err)
	}
	return result, last
}

// lookAt is what a service that had come to a simulated step would show.
func lookAt(result *sim.Result, status runstatus.RunStatus, step int, engines []enginestate.Engine,
	before time.Time) *look {
	record := result.Input.Records[step]
	v := &record.Service
	l := &look{now: v.CompletedAt, engines: engines, fleet: v.Fleet, work: map[rollout.EngineID]fleet.Work{},
		newest: fmt.Sprint(step)}
	var used rollout.Usage // engines count what their caches held; the simulator's windows do not tell
	for i := range v.Groups {
		used = used.Add(v.Groups[i].Usage)
	}
	hits := float64(used.CachedTokens) / float64(used.InputTokens)
	for _, e := range engines {
		sec := v.Fleet.WindowSec
		l.work[e.ID] = fleet.Work{
			Sec: sec, Running: sec * v.Fleet.SlotShare * inFlight, Limit: sec * inFlight,
			Input:  sec * v.Fleet.InputTPS / float64(len(engines)),
			Cached: sec * v.Fleet.InputTPS / float64(len(engines)) * hits,
			Output: sec * v.Fleet.OutputTPS / float64(len(engines)),
		}
	}
	l.runs = []runLook{{
		status: status, next: record.Step + 1, steps: result.Input.Records[max(0, step-1) : step+1],
		groups: v.Groups, after: fmt.Sprint(step),
	}}
	return l
}

// What a service shows of a run makes the terms that the simulator measures of the same run inside the engines.
func TestTermsAreThoseOfTheSimulator(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		engines int
		train   time.Duration
		p       float64 // by which share P may be off
	}{
		{"the fleet is too small", 1, 20 * time.Second, 0.05},
		{"two engines, and still too small", 2, 20 * time.Second, 0.05},
		// Windows as long as a step hardly show what full slots do where they are full for a quarter of it.
		{"the trainer is slow", 2, 200 * time.Second, 0.25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			result, want := simulated(t, tt.engines, tt.train)
			status := runstatus.RunStatus{Spec: result.Input.Spec, State: runstatus.RunRunning}
			var engines []enginestate.Engine
			for i := range tt.engines {
				engines = append(engines, enginestate.Engine{ID: rollout.EngineID(fmt.Sprint(i)), State: enginestate.EngineReady,
					MaxInFlight: inFlight, Models: []string{"base"}})
			}
			var m memory
			var got scaling.Sample
			for step := range result.Input.Records {
				got = lookAt(&result, status, step, engines, m.At).sample(&m)
			}
			g, w := got.Runs[0], want.Runs[0]
			for _, term := range []struct {
				name           string
				got, want, off float64
			}{{"C", g.C, w.C, 0.05}, {"P", g.P, w.P, tt.p}, {"R/D", g.RD, w.RD, 0.05}} {
				if math.Abs(term.got/term.want-1) > term.off {
					t.Errorf("%s is %.1f s; the simulator's own is %.1f s", term.name, term.got, term.want)
				}
			}
			if got.Engines.Ready != tt.engines || g.Engines != float64(tt.engines) || g.Steps != 20 {
				t.Errorf("%+v of %d engines", got, tt.engines)
			}
		})
	}
}
