// Package prediction holds simulated runs to live ones: variants of a run, predicted from the record of that run
// alone. Tests and trials use it, the product does not. Start reading at Predict.
package prediction

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// What a prediction may be off by.
const (
	maxStepError  = 0.05
	maxOnsetError = 1 // steps
)

// Example is a run whose variants are predicted from it alone.
type Example struct {
	Name     string // of the spec in config/examples
	Variants []Variant
}

// Variant is a run that differs from its example in one thing.
type Variant struct {
	Name string
	// Steps is how many a live run of it needs, so that its steady steps can be told.
	Steps  int
	Change func(*sim.Setup)
}

// Examples is what the trial of live against simulated runs plays.
func Examples() []Example {
	variants := func(base, engines4, engines1, depth4, samples12 int) []Variant {
		return []Variant{
			{"base", base, func(*sim.Setup) {}},
			{"engines-4", engines4, func(s *sim.Setup) { s.Fleet.Engines = 4 }},
			{"engines-1", engines1, func(s *sim.Setup) { s.Fleet.Engines = 1 }},
			{"depth-4", depth4, func(s *sim.Setup) { s.Buffer.Depth = 4 }},
			{"samples-12", samples12, func(s *sim.Setup) { s.Group.Samples, s.Group.MinSamples = 12, 12 }},
		}
	}
	return []Example{
		{Name: "seed-004", Variants: variants(12, 12, 8, 14, 9)},
		// Its engines are never full, so that its record cannot show how many sequences they would run: the profile's.
		{Name: "latency-bound", Variants: variants(24, 24, 24, 28, 18)},
	}
}

// Prediction is a live run beside the simulated one.
type Prediction struct {
	Name string `json:"name"`
	// Window is the steady steps, of both runs, and Step their mean time in seconds.
	Window    calibration.Window `json:"steady_steps"`
	Live      float64            `json:"live_seconds"`
	Simulated float64            `json:"simulated_seconds"`
	// The onsets of starvation; -1: there is none.
	LiveOnset      rollout.Step `json:"live_onset"`
	SimulatedOnset rollout.Step `json:"simulated_onset"`
	// TurnsPerSec is how many turns per second the simulated run makes: a worker's processors carry some hundreds each.
	TurnsPerSec float64 `json:"turns_per_second"`
}

// Predict simulates a variant of a calibrated run, and compares it with its live run.
func Predict(ctx context.Context, c *calibration.Calibration, v Variant, live *runrecord.Record) (Prediction, error) {
	records := live.Done()
	s := c.Setup
	v.Change(&s)
	s.Steps = live.Run.Spec.Steps
	result, err := sim.Run(ctx, s, sim.Options{})
	if err != nil {
		return Prediction{}, fmt.Errorf("simulate %s: %w", v.Name, err)
	}
	w := calibration.Steady(s.Buffer.Depth, records, result.Input.Records)
	p := Prediction{
		Name: v.Name, Window: w, Live: w.MeanStep(records), Simulated: w.MeanStep(result.Input.Records),
		LiveOnset: onsetOrNone(records), SimulatedOnset: onsetOrNone(result.Input.Records),
	}
	if sec := result.Wall.Seconds(); sec > 0 {
		p.TurnsPerSec = float64(result.Totals.Completed) / sec
	}
	return p, nil
}

func onsetOrNone(records []steprecord.StepRecord) rollout.Step {
	if onset, ok := calibration.Onset(records); ok {
		return onset
	}
	return -1
}

// Error is how far the prediction is off, as a share.
func (p Prediction) Error() float64 { return p.Simulated/p.Live - 1 }

// Fault is why a prediction does not hold.
func (p Prediction) Fault() error {
	var errs []error
	if p.Window.Steps() < 2 {
		errs = append(errs, fmt.Errorf("%s: %d steady steps: too few to compare", p.Name, p.Window.Steps()))
	} else if math.Abs(p.Error()) > maxStepError {
		errs = append(errs, fmt.Errorf("%s: a steady step takes %.2f s live and %.2f s simulated: %+.1f %%, more than "+
			"%.0f %%", p.Name, p.Live, p.Simulated, 100*p.Error(), 100*maxStepError))
	}
	a, b := p.LiveOnset, p.SimulatedOnset
	if (a < 0) != (b < 0) || a-b > maxOnsetError || b-a > maxOnsetError {
		errs = append(errs, fmt.Errorf("%s: starvation begins %s live and %s simulated", p.Name, onsetText(a),
			onsetText(b)))
	}
	return errors.Join(errs...)
}

func onsetText(step rollout.Step) string {
	if step < 0 {
		return "never"
	}
	return fmt.Sprintf("at step %d", step)
}

// String is a prediction on one line.
func (p Prediction) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: steps %d to %d take %.2f s live, %.2f s simulated (%+.1f %%)", p.Name, p.Window.From,
		p.Window.To-1, p.Live, p.Simulated, 100*p.Error())
	fmt.Fprintf(&b, "; starved %s live, %s simulated", onsetText(p.LiveOnset), onsetText(p.SimulatedOnset))
	return b.String()
}
