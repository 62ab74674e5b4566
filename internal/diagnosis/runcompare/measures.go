package runcompare

import (
	"maps"
	"slices"

	"github.com/millrace/millrace/internal/diagnosis/runcurve"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

type record = steprecord.StepRecord

// measures lists the measures by which runs are compared.
func measures(a, b *Side) []measured {
	all := []measured{
		{name: "step time", unit: "s", good: lower, of: stepSeconds},
		{name: "step per game", unit: "s", good: lower, of: perGame},
		{name: "starved share", unit: "%", good: lower, of: perStep(func(r record) float64 {
			return 100 * units.Share(r.StepPhases()[steprecord.PhaseWait], r.StepSec())
		})},
		{name: "staleness", unit: "versions", good: lower,
			of: perStep(func(r record) float64 { return r.Service.StalenessMean })},
		{name: "no reward variance", unit: "%", good: lower, of: perStep(func(r record) float64 {
			return 100 * units.Share(float64(r.Service.ZeroVarianceGroups), float64(len(r.Service.Groups)))
		})},
		{name: "output", unit: "tok/s", good: higher,
			of: perStep(func(r record) float64 { return r.Service.Fleet.OutputTPS })},
		{name: "input", unit: "tok/s", of: perStep(func(r record) float64 { return r.Service.Fleet.InputTPS })},
		{name: "tokens per step", unit: "tokens",
			of: perStep(func(r record) float64 { return float64(used(r).OutputTokens) })},
		{name: "slots in use", unit: "%",
			of: perStep(func(r record) float64 { return 100 * r.Service.Fleet.SlotShare })},
		{name: "engines per step", unit: "h", good: lower, of: perStep(engineHours)},
		{name: "reward", unit: "", good: higher, interval: reward},
		{name: "game length", unit: "phases", of: perGameOf(func(g gamelist.Game) *float64 {
			phases := float64(g.Phases)
			return &phases
		})},
		{name: "game time", unit: "s", good: lower, of: perGameOf(func(g gamelist.Game) *float64 {
			if g.Seconds <= 0 {
				return nil
			}
			return &g.Seconds
		})},
		{name: "failures per game", unit: "", good: lower, of: failures},
	}
	for _, p := range steprecord.Phases() {
		all = append(all, measured{name: "step: " + string(p), unit: "s", good: lower, part: true,
			of: perStep(func(r record) float64 { return r.StepPhases()[p] })})
	}
	if a.PerEngineHour > 0 && b.PerEngineHour > 0 {
		all = append(all, measured{name: "cost of a step", unit: "", good: lower, of: func(s *Side) []float64 {
			return perStep(func(r record) float64 { return engineHours(r) * s.PerEngineHour })(s)
		}})
	}
	for _, name := range metricsOf(a, b) {
		all = append(all, measured{name: "trainer's " + name, of: func(s *Side) (values []float64) {
			for _, r := range s.Steps {
				if v, has := r.Trainer.Metrics[name]; has {
					values = append(values, v)
				}
			}
			return values
		}})
	}
	return all
}

func stepSeconds(s *Side) []float64 {
	return perStep(record.StepSec)(s)
}

// perStep takes a value of every step. Step 0 has its prefill taken off where StepSec is asked.
func perStep(of func(record) float64) func(*Side) []float64 {
	return func(s *Side) []float64 {
		values := make([]float64, 0, len(s.Steps))
		for _, r := range s.Steps {
			values = append(values, of(r))
		}
		return values
	}
}

// perGame is a step's time per game.
func perGame(s *Side) (values []float64) {
	for _, r := range s.Steps {
		games := 0
		for _, g := range r.Service.Groups {
			games += len(g.EpisodeSec)
		}
		if games > 0 {
			values = append(values, r.StepSec()/float64(games))
		}
	}
	return values
}

// perGameOf takes a value of every game that has it.
func perGameOf(of func(gamelist.Game) *float64) func(*Side) []float64 {
	return func(s *Side) (values []float64) {
		for _, g := range s.Games {
			if v := of(g); v != nil {
				values = append(values, *v)
			}
		}
		return values
	}
}

// reward is the mean of the games that were trained on: those of one group are alike, so that groups are what counts.
func reward(s *Side) stat.Interval {
	var all stat.GroupedMean
	for _, r := range s.Steps {
		step := runcurve.StepOf(r)
		all = all.Add(step.Played().Reward)
	}
	return all.Interval(confidence)
}

// failures is one figure: how they are spread over the games is not kept.
func failures(s *Side) []float64 {
	if s.Attempts.Finished == 0 {
		return nil
	}
	return []float64{float64(s.Attempts.Failed) / float64(s.Attempts.Finished)}
}

func engineHours(r record) float64 {
	return r.Service.Fleet.Engines * r.StepSec() / 3600
}

func used(r record) (all rollout.Usage) {
	for _, g := range r.Service.Groups {
		all = all.Add(g.Usage)
	}
	return all
}

// metricsOf lists the metrics that both trainers report.
func metricsOf(a, b *Side) []string {
	of := func(s *Side) map[string]bool {
		names := map[string]bool{}
		for _, r := range s.Steps {
			for name := range r.Trainer.Metrics {
				names[name] = true
			}
		}
		return names
	}
	both, other := of(a), of(b)
	maps.DeleteFunc(both, func(name string, _ bool) bool { return !other[name] })
	return slices.Sorted(maps.Keys(both))
}
