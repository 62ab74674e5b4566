package diagnosis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
)

const (
	// explained is the largest median error of a replay that may be trusted with a change.
	explained = 0.10
	// minGain is the smallest gain of a change that is called help.
	minGain = 0.05
	// horizon is how many steps beyond the record a replay goes on, for the steady state to show.
	horizon = 120
	// steadySteps is the end of a replay that is its steady state: whole cycles of most periods.
	steadySteps = 48
	// resamplings is how many replays with resampled groups make an interval.
	resamplings    = 100
	resampledSteps = 2 * steadySteps
	// effort bounds the groups replayed for the interval of one what-if.
	effort = 1_000_000
)

// predictions is what a replay says: how well it meets the record and, if it does, what changes would do.
type predictions struct {
	replay *Fit // nil when nothing was replayed
	// simulator is how well the simulated run meets the record; nil when nothing was simulated.
	simulator *Fit
	whatIfs   []WhatIf
	// model is the run as it can be replayed with changes; nil: the records do not hold what it takes, or are not met.
	model   *replayModel
	missing []string // evidence that would be needed to replay
	notes   []string
}

// predict is the third stage: it replays the run as it was and, if that meets the record, with one thing changed.
func predict(m *measurements, reg *regime) predictions {
	p := predictions{whatIfs: []WhatIf{}}
	known := reg.Kind != NoRegime && reg.P != nil && reg.R != nil
	if !known || !m.starving() && !willStarve(m, reg) {
		return p
	}
	model, ok := newReplayModel(m, reg)
	if !ok {
		p.missing = []string{"group timelines of the first steps"}
		return p
	}
	fit := fitOf(m, reg, model)
	p.replay = &fit
	if fit.Explains {
		p.model = &model
	}
	sim, better, known := simulatorOf(m.in, fit)
	if known {
		p.simulator = &sim.fit
	}
	for i, c := range whatIfChanges(m, reg) {
		if better {
			if w, ok := sim.whatIf(c); ok {
				p.whatIfs = append(p.whatIfs, w)
				continue
			}
		}
		if fit.Explains {
			p.whatIfs = append(p.whatIfs, whatIf(m, model, fit, c, uint64(i)))
		}
	}
	if !fit.Explains && !better && m.starving() { // of a run that does not wait yet, nothing is asked of the model
		p.notes = []string{fmt.Sprintf(
			"the model does not explain this run (the replay is off by %s): no what-ifs", units.Percent(fit.MedianError))}
	}
	return p
}

// willStarve reports whether a run that does not wait yet consumes faster than it produces.
func willStarve(m *measurements, reg *regime) bool {
	_, _, draining := m.bufferDrain()
	return draining && reg.slots.full() && reg.P != nil && reg.P.Sec > (1+explained)*reg.C.Sec
}

// fitOf compares the replay with the record: the median error over the whole run and over the steps
// as they are now, whichever is worse, because the fast steps of a run are met by any model.
func fitOf(m *measurements, reg *regime, model replayModel) Fit {
	n := len(m.all)
	replayed := model.replay(n + horizon)
	period := 1
	if m.cycle != nil {
		period = m.cycle.Period // a cycle may be met one step late
	}
	if reg.Kind == LatencyBound {
		period = max(period, m.depth()) // it repeats with the depth, even where noise hides the cycle
	}
	period = min(period, max(1, n/2))
	modelled, recorded := make([]float64, n), make([]float64, n)
	for i := range n {
		modelled[i], recorded[i] = replayed[i].wall, m.all[i].wall
	}
	modelled, recorded = movingMeans(modelled, period), movingMeans(recorded, period)
	var errs []float64
	for i := range modelled {
		errs = append(errs, math.Abs(modelled[i]/recorded[i]-1))
	}
	worst := median(errs)
	if from := min(model.stepLoop, len(errs)-1); from >= 0 {
		worst = max(worst, median(errs[from:]))
	}
	return Fit{MedianError: worst, Explains: worst <= explained, StepSec: steady(replayed), Onset: m.onset(replayed)}
}

// steady is the mean step of a replay's end.
func steady(replayed []replayedStep) float64 {
	sum := 0.0
	for _, s := range replayed[len(replayed)-steadySteps:] {
		sum += s.wall
	}
	return sum / steadySteps
}

// onset is the first step of a replay with at least half of the steady wait; nil when hardly any wait is left.
func (h *history) onset(replayed []replayedStep) *rollout.Step {
	wait, wall := 0.0, 0.0
	for _, s := range replayed[len(replayed)-steadySteps:] {
		wait += s.wait / steadySteps
		wall += s.wall / steadySteps
	}
	if wait < minWaitShare*wall {
		return nil
	}
	for k, s := range replayed {
		if k > 0 && s.wait >= wait/2 {
			no := h.all[0].no + rollout.Step(k)
			return &no
		}
	}
	return nil
}

// whatIf replays with the change, and again with resampled groups for the interval.
func whatIf(m *measurements, model replayModel, fact Fit, c whatIfChange, stream uint64) WhatIf {
	replayed := c.apply(model).replay(len(m.all) + horizon)
	w := WhatIf{
		Change: c.name, Note: c.note, Command: c.command, Staler: c.staler,
		StepSec: steady(replayed), Onset: m.onset(replayed), Basis: Modelled, Model: ReplayModel,
	}
	rng := rand.New(rand.NewPCG(m.in.Seed, stream))
	runs := max(20, min(resamplings, effort/(resampledSteps*model.take[0])))
	var means []float64
	for range runs {
		means = append(means, steady(c.apply(model.resampled(rng, resampledSteps)).replay(resampledSteps)))
	}
	w.LowSec, w.HighSec = min(w.StepSec, quantile(means, 0.05)), max(w.StepSec, quantile(means, 0.95))
	w.Outcome = outcomeOf(w.StepSec, fact.StepSec)
	return w
}

// outcomeOf is what a change does that makes a steady step of one length one of another.
func outcomeOf(withSec, nowSec float64) Outcome {
	switch gain := 1 - withSec/nowSec; {
	case gain >= minGain:
		return Helps
	case gain <= -minGain/2:
		return Worse
	}
	return HelpsNot
}

// resampled draws groups and steps of the last level with replacement, for n steps. It starts
// with one batch ready instead of a prefill, so that the steady state comes at once.
func (p replayModel) resampled(rng *rand.Rand, n int) replayModel {
	groups, steps := len(p.work)-p.groupLoop, len(p.compute)-p.stepLoop
	work, latency := make([]float64, 0, n*p.take[0]), make([]float64, 0, n*p.take[0])
	for range n * p.take[0] {
		i := p.groupLoop + rng.IntN(groups)
		work, latency = append(work, p.work[i]), append(latency, p.latency[i])
	}
	compute := make([]float64, n)
	for k := range compute {
		compute[k] = p.compute[p.stepLoop+rng.IntN(steps)]
	}
	depth, take := p.depth[len(p.depth)-1], p.take[len(p.take)-1]
	p.work, p.latency, p.compute = work, latency, compute
	p.depth, p.take = slices.Repeat([]int{depth}, n), slices.Repeat([]int{take}, n)
	p.groupLoop, p.stepLoop, p.first = 0, 0, take
	p.capacity, p.until = p.capacity[len(p.capacity)-1:], nil
	return p
}
