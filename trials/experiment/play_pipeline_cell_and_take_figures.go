package experiment

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// playPipeline plays a whole pipeline with a seed, and returns its metrics by name.
func (c *Cell) playPipeline(ctx context.Context, seed int) (map[string]float64, error) {
	setup := *c.Setup
	setup.Seed += int64(seed)
	play := func(ctx context.Context, s sim.Setup) (sim.Result, error) { return sim.Run(ctx, s, sim.Options{}) }
	if c.Setting.Scaling.Target > 0 {
		play = c.Setting.Scaling.scaled
	}
	result, err := play(ctx, setup)
	if err != nil {
		return nil, err
	}
	return pipelineFigures(result)
}

func pipelineFigures(result sim.Result) (map[string]float64, error) {
	records := result.Input.Records
	if len(records) < 2 {
		return nil, fmt.Errorf("the run has %d steps: want at least 2", len(records))
	}
	m := map[string]float64{"prefill": records[0].PrefillSec(), "total": result.Wall.Seconds()}
	steps := make([]float64, len(records))
	for i, record := range records {
		steps[i] = record.StepSec()
		m[fmt.Sprintf("step_%d", i)] = steps[i]
		m[fmt.Sprintf("ready_%d", i)] = record.Service.ReadyDepth
	}
	late := records[len(records)/2:]
	m["step_first"], m["step_mean"] = steps[0], mean(steps[1:])
	m["step_steady"] = mean(steps[len(steps)/2:])
	m["onset"] = float64(onset(steps))
	var waited, wall, staleness float64
	for _, record := range late {
		waited += record.StepPhases()[steprecord.PhaseWait]
		wall += record.StepSec()
		staleness += record.Service.StalenessMean
	}
	m["staleness"], m["starved"] = staleness/float64(len(late)), waited/wall
	t := result.Totals
	m["busy"], m["in_flight"] = t.BusySec/t.EngineSec, t.InFlightSec/t.EngineSec
	m["engine_hours"], m["engines_mean"] = t.EngineSec/3600, t.EngineSec/result.Wall.Seconds()
	m["dropped"] = 0
	for _, left := range result.Input.Departures {
		if left.Code != steprecord.Trained {
			m["dropped"] += float64(left.Groups)
		}
	}
	return m, nil
}

// slowStep is how many times as long as the steps before it a slow step takes.
const slowStep = 1.25

// onset is the first slow step, or how many steps there are.
func onset(steps []float64) int {
	for k := 1; k < len(steps); k++ {
		before := slices.Sorted(slices.Values(steps[:k]))
		if median := (before[(k-1)/2] + before[k/2]) / 2; steps[k] > slowStep*median {
			return k
		}
	}
	return len(steps)
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// chance reports whether chance plays in a pipeline: in games that are drawn, or in the trainer's phases.
func chance(s *sim.Setup) bool {
	d := s.Workload.Distribution
	if d == nil || s.Trainer.Variation > 0 || d.Failures > 0 || d.ZeroVariance > 0 || d.Stragglers > 0 {
		return true
	}
	for _, spread := range []float64{d.Phases.Spread, d.Agents.Spread, d.Prompt.Spread, d.Output.Spread, d.Env.Spread} {
		if spread > 0 {
			return true
		}
	}
	return false
}
