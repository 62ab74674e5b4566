package sim

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// seedGames are about the games of seed note 004: six phases, some five powers each.
var seedGames = workload.Distribution{
	Phases: workload.Spread{Mean: 6, Spread: 0.1}, Agents: workload.Spread{Mean: 5.2}, Output: workload.Spread{Mean: 26,
		Spread: 0.2},
	Prompt: workload.Spread{Mean: 440, Spread: 0.05}, Growth: 8,
	Shared: workload.SharedTokens{System: 200, Group: 300, Game: 360},
}

// seed004 is a run like that of the seed note, on so many engines.
func seed004(steps, engines int) Setup {
	s := Setup{Spec: spec.Default()}
	s.Name, s.Model, s.Steps = "seed-004", "base", steps
	s.Group = runspec.GroupSpec{Samples: 6, MinSamples: 6}
	s.Fleet = Fleet{Engines: engines, MaxNumSeqs: 1, MaxInFlight: 2}
	s.Trainer = Trainer{Load: 2 * second, Train: 140 * second, Publish: 2 * second}
	games := seedGames
	s.Workload.Distribution = &games
	s.Overheads = Overheads{Call: second / 200, Phase: second / 200, Launch: second / 20, Commit: second / 50}
	return s
}

// BenchmarkSteps plays as many steps as are asked for: -bench Steps/64-engines$ -benchtime 10000x is a run of ten
// thousand steps on 64 engines of 256 requests in flight.
func BenchmarkSteps(b *testing.B) {
	wide := seed004(1<<20, 64)
	wide.Fleet.MaxNumSeqs, wide.Fleet.MaxInFlight = 256, 256
	for _, bb := range []struct {
		name  string
		setup Setup
	}{
		{"seed-004", seed004(1<<20, 4)},
		{"64-engines", wide},
		{"64-engines-filled", filled()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			began := time.Now()
			r, err := Run(context.Background(), bb.setup, Options{MaxSteps: b.N, Detail: 500})
			if err != nil {
				b.Fatal(err)
			}
			sec := time.Since(began).Seconds()
			b.ReportMetric(float64(r.Totals.Completed)/sec, "requests/s")
			b.ReportMetric(float64(r.Totals.Completed)/float64(b.N), "requests/op")
			b.ReportMetric(float64(r.Events)/sec, "events/s")
		})
	}
}

// filled is a run that keeps 64 engines busy with 256 requests each.
func filled() Setup {
	s := seed004(1<<20, 64)
	s.Fleet.MaxNumSeqs, s.Fleet.MaxInFlight = 256, 256
	s.Group = runspec.GroupSpec{Samples: 8, MinSamples: 8}
	s.Buffer.Depth, s.Buffer.GroupsPerStep = 2, 256
	s.Trainer.Train = 10 * second
	return s
}
