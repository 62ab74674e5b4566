package plan

import (
	"context"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/interval"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/sim/calibration"
)

// predictedSeeds is how often a change is simulated for a diagnosis, and onsetSteps for how long it is looked for the
// first starved step.
const (
	predictedSeeds = 2
	onsetSteps     = 24
)

// Predictor predicts what changes do to a calibrated run, for its diagnosis. Learn simulates the changes, and Predict
// only remembers, so that a diagnosis takes no time.
type Predictor struct {
	setup       sim.Setup
	medianError float64
	simulate    Simulate
	known       map[diagnosis.SimulatedChange]diagnosis.SimulatedStep
}

// NewPredictor is what is known of a run by its calibration, and of no change yet.
func NewPredictor(c *calibration.Calibration, simulate Simulate) *Predictor {
	return &Predictor{c.Setup, c.Fit.MedianError, simulate, map[diagnosis.SimulatedChange]diagnosis.SimulatedStep{}}
}

// Learn simulates the changes that a diagnosis of the run asks about. It is called before anybody asks Predict.
func (p *Predictor) Learn(ctx context.Context, in diagnosis.Input) {
	in.Simulator = learner{p, ctx}
	diagnosis.Diagnose(in)
}

// MedianError is that of the calibration.
func (p *Predictor) MedianError() float64 { return p.medianError }

// Predict is what steps take with a change, if it was learnt.
func (p *Predictor) Predict(c diagnosis.SimulatedChange) (diagnosis.SimulatedStep, bool) {
	step, ok := p.known[c]
	return step, ok
}

// learner is a predictor that simulates what it does not know, for as long as one diagnosis takes.
type learner struct {
	*Predictor
	ctx context.Context
}

func (l learner) Predict(c diagnosis.SimulatedChange) (diagnosis.SimulatedStep, bool) {
	if step, ok := l.known[c]; ok {
		return step, true
	}
	step, err := l.play(l.ctx, c)
	if err != nil {
		return diagnosis.SimulatedStep{}, false
	}
	l.known[c] = step
	return step, true
}

var _, _ diagnosis.Simulator = (*Predictor)(nil), learner{}

// play simulates a change: its steady steps, as a plan does, and when starvation begins.
func (p *Predictor) play(ctx context.Context, c diagnosis.SimulatedChange) (diagnosis.SimulatedStep, error) {
	r := Request{Setup: p.setup}
	if c.MaxStaleness > 0 {
		r.Setup.Buffer.MaxStaleness = c.MaxStaleness
	}
	setting := r.own()
	if c.Engines > 0 {
		setting.Engines = c.Engines
	}
	if c.Depth > 0 {
		setting.Depth = c.Depth
	}
	play := play{r, setting, p.simulate, rollout.PrefillBatch, length(setting.Depth)}
	first, _, err := play.first(ctx)
	if err != nil {
		return diagnosis.SimulatedStep{}, err
	}
	stepSec := []float64{first.stepSec}
	for seed := 1; seed < predictedSeeds; seed++ {
		one, err := play.run(ctx, seed)
		if err != nil {
			return diagnosis.SimulatedStep{}, err
		}
		stepSec = append(stepSec, one.figures.stepSec)
	}
	mean := interval.Mean(stepSec, 0.9)
	step := diagnosis.SimulatedStep{StepSec: mean.Mean, LowSec: max(0, mean.Mean-mean.Half),
		HighSec: mean.Mean + mean.Half}
	setup := r.setup(setting)
	setup.Spec.Steps = onsetSteps + setting.Depth + 1
	result, err := p.simulate(ctx, setup, sim.Options{MaxSteps: onsetSteps})
	if err != nil {
		return diagnosis.SimulatedStep{}, err
	}
	if onset, starves := calibration.Onset(done(result.Input.Records)); starves && first.starved() >= hardlyStarved {
		step.Onset = &onset
	}
	return step, nil
}
