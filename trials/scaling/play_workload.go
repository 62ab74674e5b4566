package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/scaledfleet"
)

// Outcome is what became of a workload under one policy.
type Outcome struct {
	Policy scaling.Policy
	// Engines is how many a fixed fleet had.
	Engines     int
	Sec         float64 // from the start of the run to the end of its last step, the engines' first cold start included
	EngineHours float64
	Starved     float64 // share of the time that the trainer waited, the first batch apart
	FirstSec    float64 // from the start of the run to the end of its first step
	scaledfleet.Scaled
}

// Play plays a workload with a policy.
func (w *Workload) Play(ctx context.Context, cfg scaling.Config,
	decided func(scaling.Sample, []scaling.Command)) (Outcome, error) {
	result, scaled, err := scaledfleet.Run(ctx, w.Setup, sim.Options{Games: w.games(), Detail: 8}, scaledfleet.Scaling{
		Config: cfg, ColdStart: w.coldStart, Life: w.life, Decided: decided,
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("workload %d, policy %s: %w", w.Seed, cfg.Policy, err)
	}
	o := Outcome{Policy: cfg.Policy, Engines: cfg.Engines, Sec: result.Wall.Seconds(), Scaled: scaled}
	o.EngineHours = o.EngineSec / 3600
	if records := result.Input.Records; len(records) > 0 {
		o.FirstSec = records[0].Trainer.WallSec
	}
	wait := 0.0
	for i := range result.Input.Records {
		if i > 0 {
			wait += result.Input.Records[i].Trainer.Phases["wait"]
		}
	}
	o.Starved = wait / o.Sec
	return o, nil
}

// FixedFleet is the configuration of so many engines.
func FixedFleet(engines int) scaling.Config {
	return scaling.Config{Policy: scaling.Fixed, Engines: engines, Min: 1, Max: Most}
}

// StarvationDriven is the policy that is tried, with nothing said but its bounds.
func StarvationDriven(least int) scaling.Config {
	return scaling.Config{Policy: scaling.Starvation, Min: least, Max: Most}
}

// QueueDriven is the queue policy with a target of requests for each engine. The window is the one of the notes this
// project grew out of.
func QueueDriven(least, target int) scaling.Config {
	return scaling.Config{Policy: scaling.Queue, Min: least, Max: Most,
		Queue: scaling.QueueConfig{TargetInputs: target, ScaleDown: dur((10 * time.Minute).Seconds())}}
}
