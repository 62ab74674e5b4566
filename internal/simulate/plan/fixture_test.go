package plan

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// pipeline is the closed form of a run, batch by batch, in place of a simulation: a trainer that takes C, engines that
// produce a batch in P / engines, and games that take R whatever the engines.
type pipeline struct {
	compute, work, latency float64
	noise                  float64
	calls                  *int
}

func (p pipeline) simulate(_ context.Context, s sim.Setup, o sim.Options) (sim.Result, error) {
	if p.calls != nil {
		*p.calls++
	}
	if s.Group.Samples == 13 {
		return sim.Result{}, errors.New("13 games are too many")
	}
	depth := min(s.Buffer.Depth, s.Buffer.AdmittedSteps(0))
	rng := rand.New(rand.NewPCG(uint64(s.Seed), 1))
	size := float64(s.Buffer.GroupsPerStep*s.Group.Samples) / 48
	speed := make([]float64, s.Fleet.Engines)
	for i := range speed {
		speed[i] = 1
	}
	var result sim.Result
	var launched, ready []float64
	free := 0.0
	launch := func(now float64) {
		total := 0.0
		for _, v := range speed {
			total += v
		}
		work := size * p.work * (1 + p.noise*(2*rng.Float64()-1))
		free = max(free, now) + work/total
		launched, ready = append(launched, now), append(ready, max(free, now+p.latency))
	}
	for range depth {
		launch(0)
	}
	first := ready[0]
	if s.Buffer.Prefill != runspec.PrefillBatch {
		first = ready[depth-1]
	}
	end, claimed := 0.0, 0.0
	origin := time.Unix(0, 0)
	compute := p.compute + time.Duration(s.Trainer.Publish).Seconds()
	for k := range o.MaxSteps {
		for _, e := range s.Fleet.Events {
			if int(e.Step) == k && e.Kind == sim.LoseEngine {
				speed[e.Engine] = 0
			}
			if k == 0 && e.Step == 0 && e.Kind == sim.SlowEngine {
				speed[e.Engine] = 1 / e.Factor
			}
		}
		start := max(end, ready[k])
		if k == 0 {
			start = max(start, first)
		}
		atClaim := 0
		for i := k; i < len(ready); i++ {
			if ready[i] <= start {
				atClaim++
			}
		}
		launch(start)
		wait := start - end
		record := steprecord.StepRecord{Step: rollout.Step(k), Done: true}
		record.Trainer = steprecord.StepReport{WallSec: wait + compute, Phases: map[steprecord.Phase]float64{
			steprecord.PhaseWait: wait, steprecord.PhaseTrain: compute}}
		record.Service = steprecord.ServiceView{ReadyDepth: float64(atClaim), StalenessMean: float64(depth),
			StalenessMax: int64(depth), GrantedAt: origin.Add(time.Duration(start * 1e9)),
			Groups: []steprecord.GroupView{{Usage: rollout.Usage{InputTokens: int64(1e6 * size), OutputTokens: 1000}}},
			Fleet: steprecord.FleetView{WindowSec: start - claimed, Engines: float64(s.Fleet.Engines), BusyShare: 0.5,
				InputTPS: 1000, OutputTPS: 10}}
		result.Input.Records = append(result.Input.Records, record)
		claimed, end = start, start+compute
	}
	return result, nil
}

// seed004 is the setup of the step jump: 150 s of training, and 600 s of one engine's work a step.
func seed004() sim.Setup {
	s := sim.DefaultSetup()
	s.Spec.Name, s.Model, s.Spec.Steps = "seed-004", "m", 8
	s.Environment.Kind = "diplomacy"
	s.Group.Samples, s.Group.MinSamples = 6, 6
	s.Buffer.Depth, s.Buffer.GroupsPerStep, s.Buffer.MaxStaleness = 2, 8, 4
	s.Adapters = runspec.AdapterSpec{Rank: 32, PathPrefix: "/tmp/adapters"}
	s.Fleet.Engines, s.Trainer.Publish = 2, 0
	s.Workload.Bots = &sim.BotGames{Answers: sim.BotAnswers}
	return s
}

var (
	capacityBound = pipeline{compute: 150, work: 600, latency: 60}
	latencyBound  = pipeline{compute: 150, work: 100, latency: 600}
)
