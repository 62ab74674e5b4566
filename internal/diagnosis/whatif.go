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

// readReplay replays the run as it was and, if that meets the record, with one thing changed.
func (q *inquiry) readReplay(r *Report) {
	if q.regime.Kind == NoRegime || q.regime.P == nil || q.regime.R == nil || !q.starving() && !q.willStarve() {
		return
	}
	p, ok := q.newPlant()
	if !ok {
		r.Missing = append(r.Missing, "group timelines of the first steps")
		return
	}
	fit := q.fit(p)
	r.Replay = &fit
	if !fit.Explains {
		if !q.starving() { // nothing is asked of the model yet
			return
		}
		r.Notes = append(r.Notes, fmt.Sprintf(
			"the model does not explain this run (the replay is off by %s): no what-ifs", units.Percent(fit.MedianError)))
		return
	}
	for i, c := range q.changes() {
		r.WhatIfs = append(r.WhatIfs, q.whatIf(p, fit, c, uint64(i)))
	}
}

// willStarve reports whether a run that does not wait yet consumes faster than it produces.
func (q *inquiry) willStarve() bool {
	_, _, falling := q.fallingDepth()
	reg := q.regime
	return falling && q.account.full() && reg.P != nil && reg.P.Sec > (1+explained)*reg.C.Sec
}

// fit compares the replay with the record: the median error over the whole run and over the steps
// as they are now, whichever is worse, because the fast steps of a run are met by any model.
func (q *inquiry) fit(p plant) Fit {
	n := len(q.ledger.all)
	turns := p.replay(n + horizon)
	period := 1
	if q.cycle != nil {
		period = q.cycle.Period // a cycle may be met one step late
	}
	if q.regime.Kind == LatencyBound {
		period = max(period, q.depth()) // it repeats with the depth, even where noise hides the cycle
	}
	period = min(period, max(1, n/2))
	modelled, recorded := make([]float64, n), make([]float64, n)
	for i := range n {
		modelled[i], recorded[i] = turns[i].wall, q.ledger.all[i].wall
	}
	modelled, recorded = movingMeans(modelled, period), movingMeans(recorded, period)
	var errs []float64
	for i := range modelled {
		errs = append(errs, math.Abs(modelled[i]/recorded[i]-1))
	}
	worst := median(errs)
	if from := min(p.stepLoop, len(errs)-1); from >= 0 {
		worst = max(worst, median(errs[from:]))
	}
	f := Fit{MedianError: worst, Explains: worst <= explained, StepSec: steady(turns)}
	f.Onset = q.numbered(p.onset(turns))
	return f
}

func movingMeans(x []float64, width int) []float64 {
	var out []float64
	for i := width; i <= len(x); i++ {
		sum := 0.0
		for _, v := range x[i-width : i] {
			sum += v
		}
		out = append(out, sum/float64(width))
	}
	return out
}

// steady is the mean step of a replay's end.
func steady(turns []turn) float64 {
	end := turns[len(turns)-steadySteps:]
	sum := 0.0
	for _, t := range end {
		sum += t.wall
	}
	return sum / steadySteps
}

// onset is the first step with at least half of the steady wait; nil when hardly any wait is left.
func (p *plant) onset(turns []turn) *int {
	wait, wall := 0.0, 0.0
	for _, t := range turns[len(turns)-steadySteps:] {
		wait += t.wait / steadySteps
		wall += t.wall / steadySteps
	}
	if wait < minWaitShare*wall {
		return nil
	}
	for k, t := range turns {
		if k > 0 && t.wait >= wait/2 {
			return &k
		}
	}
	return nil
}

// numbered turns a position in a replay into the step's number.
func (q *inquiry) numbered(at *int) *rollout.Step {
	if at == nil {
		return nil
	}
	no := q.ledger.all[0].no + rollout.Step(*at)
	return &no
}

// change is one thing done differently.
type change struct {
	name    string
	note    string
	command string // that makes it; empty when none does
	staler  bool   // trains on older games than the run allows
	apply   func(plant) plant
}

// whatIf replays with the change, and again with resampled groups for the interval.
func (q *inquiry) whatIf(p plant, fact Fit, c change, stream uint64) WhatIf {
	changed := c.apply(p)
	turns := changed.replay(len(q.ledger.all) + horizon)
	w := WhatIf{Change: c.name, Note: c.note, Command: c.command, Staler: c.staler, StepSec: steady(turns), Onset: q.numbered(changed.onset(turns)), Basis: Modelled}
	rng := rand.New(rand.NewPCG(q.in.Seed, stream))
	runs := max(20, min(resamplings, effort/(resampledSteps*p.take[0])))
	var means []float64
	for range runs {
		means = append(means, steady(c.apply(p.resampled(rng, resampledSteps)).replay(resampledSteps)))
	}
	w.LowSec, w.HighSec = min(w.StepSec, quantile(means, 0.05)), max(w.StepSec, quantile(means, 0.95))
	switch gain := 1 - w.StepSec/fact.StepSec; {
	case gain >= minGain:
		w.Outcome = Helps
	case gain <= -minGain/2:
		w.Outcome = Worse
	default:
		w.Outcome = HelpsNot
	}
	return w
}

// resampled draws groups and steps of the last level with replacement, for n steps. It starts
// with one batch ready instead of a prefill, so that the steady state comes at once.
func (p plant) resampled(rng *rand.Rand, n int) plant {
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
