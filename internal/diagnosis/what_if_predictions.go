package diagnosis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/millrace/millrace/internal/capacity"
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
	// steadySteps is the most steps that a steady state is measured over: whole cycles of most periods.
	steadySteps = 48
	// resamplings is how many replays with resampled groups make an interval.
	resamplings = 100
	// effort bounds the groups replayed for the interval of one what-if.
	effort = 20_000
)

// predictions is what a replay says: how well it meets the record and, if it does, what changes would do.
type predictions struct {
	replay *Fit // nil when nothing was replayed
	// simulator is how well the simulated run meets the record; nil when nothing was simulated.
	simulator *Fit
	whatIfs   []WhatIf
	// model is the run as it can be replayed with changes; nil: the records do not hold what it takes. It is trusted
	// with a step time only where fit explains the record; else with what a change does to one, as far as that goes.
	model *replayModel
	fit   Fit
	probe *Probe
	// doubted: the replay does not meet a record whose regime follows from how the engines are thought to bear load.
	doubted bool
	missing []string // evidence that would be needed to replay
	notes   []string
}

// predict is the third stage: it replays the run as it was and, if that meets the record, with one thing changed.
func predict(m *measurements, reg *regime) predictions {
	p := predictions{whatIfs: []WhatIf{}}
	if reg.Kind == NoRegime || reg.P == nil || reg.R == nil {
		return p
	}
	model, ok := newReplayModel(m, reg)
	waits := m.starving() || willStarve(m, reg)
	if !ok {
		if waits {
			p.missing = []string{"group timelines of the first steps"}
		}
		return p
	}
	fit := fitOf(m, reg, &model)
	p.model, p.fit = &model, fit
	p.doubted = !fit.Explains && (reg.Kind == LatencyBound || reg.Resource == EngineSpeed)
	if !waits {
		return p
	}
	p.replay = &fit
	sim, better, known := simulatorOf(m.in, fit)
	if known {
		p.simulator = &sim.fit
	}
	for i, c := range whatIfChanges(m, reg) {
		if better {
			if w, ok := sim.whatIf(c); ok {
				p.whatIfs = append(p.whatIfs, withEngines(m, w, c))
				continue
			}
		}
		if !fit.Explains || c.onlyHelp && outcomeOf(model.without(c.change).StepSec, fit.StepSec) != Helps {
			continue
		}
		p.whatIfs = append(p.whatIfs, withEngines(m, whatIf(&model, fit, c, uint64(i)), c))
	}
	mayHelp := func(w WhatIf) bool { return w.Outcome == MayHelp }
	if reg.Kind == UndecidedRegime || p.doubted || slices.ContainsFunc(p.whatIfs, mayHelp) {
		p.probe = probeOf(m, reg, &model)
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
// as they are now, whichever is worse, because the fast steps of a run are met by any model. The beginning of a replay
// that does not begin with the run is left out: what was outstanding then is not known.
func fitOf(m *measurements, reg *regime, model *replayModel) Fit {
	recordedSteps := latestSteps(m.untilAsked())
	replayed := model.replay(len(recordedSteps))
	n := min(len(recordedSteps), len(replayed))
	from := 0
	for from < n-1 && recordedSteps[from].no < m.all[0].no {
		from++
	}
	if model.from > 0 {
		warm, _ := model.span()
		from = max(from, min(warm, n/2))
	}
	period := 1
	if m.cycle != nil {
		period = m.cycle.Period // a cycle may be met one step late
	}
	if reg.Kind == LatencyBound || reg.Resource == EngineSpeed || reg.Kind == UndecidedRegime {
		period = max(period, m.depth()) // it repeats with the depth, even where noise hides the cycle
	}
	period = min(period, max(1, (n-from)/2))
	modelled, recorded := make([]float64, 0, n), make([]float64, 0, n)
	for i := from; i < n; i++ {
		modelled, recorded = append(modelled, replayed[i].wall), append(recorded, recordedSteps[i].wall)
	}
	modelled, recorded = movingMeans(modelled, period), movingMeans(recorded, period)
	var errs []float64
	for i := range modelled {
		errs = append(errs, math.Abs(modelled[i]/recorded[i]-1))
	}
	worst := median(errs)
	if from := min(model.stepLoop-from, len(errs)-1); from >= 0 {
		worst = max(worst, median(errs[from:]))
	}
	fit := Fit{MedianError: worst, Explains: worst <= explained}
	steady := model.steady()
	fit.StepSec, fit.Onset = meanWall(steady.end), steady.onset(model)
	return fit
}

// steadyReplay is a replay that goes on beyond the record, and its end.
type steadyReplay struct{ all, end []replayedStep }

// steady replays the record and goes on until the steady state shows, as if the run did.
func (p *replayModel) steady() steadyReplay {
	q := *p
	q.total = 0
	warm, span := p.span()
	steps := len(p.steps) + min(horizon, 2*warm+span)
	replayed := q.replay(steps)
	return steadyReplay{replayed, replayed[max(0, len(replayed)-span):]}
}

// onset is the first step of a replay with at least half of the steady wait; nil when hardly any wait is left.
func (r steadyReplay) onset(p *replayModel) *rollout.Step {
	wait := 0.0
	for _, s := range r.end {
		wait += s.wait / float64(len(r.end))
	}
	if wait < minWaitShare*meanWall(r.end) {
		return nil
	}
	for k, s := range r.all {
		if k > 0 && s.wait >= wait/2 {
			no := p.from + rollout.Step(k)
			return &no
		}
	}
	return nil
}

// whatIf replays with the change, and again with resampled groups and the other curves that the record allows, for the
// interval.
func whatIf(model *replayModel, fact Fit, c whatIfChange, stream uint64) WhatIf {
	replayed := model.changed(c.change).steady()
	w := WhatIf{
		Change: c.name, Note: c.note, Command: c.command, Staler: c.staler, Less: c.less, deeper: c.deeper,
		StepSec: meanWall(replayed.end), Onset: replayed.onset(model), Basis: Modelled, Model: ReplayModel,
	}
	rng := rand.New(rand.NewPCG(model.rng, stream))
	warm, span := model.span()
	take := max(1, model.steps[len(model.steps)-1].take)
	runs := max(8, min(resamplings, effort/((warm+span)*take)))
	changed := model.changed(c.change).present()
	var means []float64
	for range runs {
		means = append(means, endWall(changed.resampled(rng, warm+span).replay(warm+span), span))
	}
	middle := median(means) // resampled replays differ from one another as replays do from the run
	w.LowSec = min(w.StepSec, w.StepSec*quantile(means, 0.05)/middle)
	w.HighSec = max(w.StepSec, w.StepSec*quantile(means, 0.95)/middle)
	w.Outcome = outcomeOf(w.StepSec, fact.StepSec)
	for _, curve := range model.possible {
		other := model.withCurve(curve)
		sec, now := meanWall(other.changed(c.change).steady().end), meanWall(other.steady().end)
		w.LowSec, w.HighSec = min(w.LowSec, sec), max(w.HighSec, sec)
		if outcomeOf(sec, now) != w.Outcome {
			w.Outcome = MayHelp
		}
	}
	if model.flat != nil { // two curves that differ where nothing was seen: the less the fit is sure, the more of both
		other := model.withCurve(*model.flat)
		sec, now := meanWall(other.changed(c.change).steady().end), meanWall(other.steady().end)
		w.LowSec, w.HighSec = min(w.LowSec, sec), max(w.HighSec, sec)
		w.StepSec *= math.Pow(sec/w.StepSec, model.doubt*model.doubt/2)
		if outcomeOf(sec, now) != w.Outcome {
			w.Outcome = MayHelp
		}
	}
	if c.deeper && model.uneven {
		for _, rise := range []float64{0.02, 1} {
			other := model.withCurve(capacity.CurveWith(rise, max(1, model.load), 1))
			sec, now := meanWall(other.changed(c.change).steady().end), meanWall(other.steady().end)
			if outcomeOf(sec, now) != w.Outcome {
				w.Outcome = MayHelp
			}
			w.LowSec, w.HighSec = min(w.LowSec, sec), max(w.HighSec, sec)
		}
	}
	if c.atBest {
		w.HighSec = max(w.HighSec, fact.StepSec)
		if w.Outcome == Helps {
			w.Outcome = MayHelp
		}
	}
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

// withEngines says how many engines there are with a change.
func withEngines(m *measurements, w WhatIf, c whatIfChange) WhatIf {
	w.Engines = m.fleet.engines * factor(c.change.engines)
	return w
}
