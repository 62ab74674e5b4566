package diagnosis

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	// explained is the largest median error of a replay whose predictions are trusted.
	explained = 0.10
	// minGain is the smallest gain that counts as help.
	minGain = 0.05
	// horizon is how many steps beyond the record a replay goes on, for the steady state to show.
	horizon = 120
	// steadySteps is the most steps that a steady state is measured over: whole cycles of most periods.
	steadySteps = 48
)

// predictions are the results of the replay: how well it meets the record and, if it does, the effects of changes.
type predictions struct {
	replay  *Fit // nil when no change was replayed
	whatIfs []WhatIf
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

// replayOf replays the run as it was.
func replayOf(m *measurements, reg *regime) predictions {
	p := predictions{whatIfs: []WhatIf{}}
	if !m.hasGroups() {
		return p
	}
	model, ok := newReplayModel(m, reg)
	if !ok {
		if m.starving() {
			p.missing = []string{"group timelines of the first steps"}
		}
		return p
	}
	p.model, p.fit = &model, fitOf(m, reg, &model)
	p.doubted = !p.fit.Explains && (reg.Kind == LatencyBound || reg.Resource == EngineSpeed)
	return p
}

// predict is the third stage: it replays the run as it was and, if that meets the record, with one thing changed.
func predict(m *measurements, reg *regime) predictions {
	p := replayOf(m, reg)
	if !reg.known(m) || p.model == nil || !m.starving() && !p.willStarve(m, reg) {
		return p
	}
	p.replay = &p.fit
	for _, c := range whatIfChanges(m, reg) {
		if p.fit.Explains && (!c.onlyHelp || outcomeOf(p.model.stepWith(c.change), p.fit.StepSec) == Helps) {
			w := whatIf(p.model, p.fit, c)
			w.Engines = m.fleet.engines * factor(c.change.engines)
			p.whatIfs = append(p.whatIfs, w)
		}
	}
	mayHelp := func(w WhatIf) bool { return w.Outcome == MayHelp }
	if reg.Kind == UndecidedRegime || p.doubted || slices.ContainsFunc(p.whatIfs, mayHelp) {
		p.probe = probeOf(m, reg, p.model)
	}
	if !p.fit.Explains && m.starving() { // a run that does not wait yet needs no prediction
		p.notes = []string{fmt.Sprintf(
			"the model does not explain this run (the replay is off by %s): no what-ifs", units.Percent(p.fit.MedianError))}
	}
	return p
}

// gain is by how much a step would be shorter with a change: the replay's relative gain, of the recorded step.
func (p *predictions) gain(reg *regime, c change) float64 {
	if p.model == nil {
		return 0
	}
	now := p.model.stepWith(change{})
	if !(now > 0) {
		return 0
	}
	return reg.StepSec * max(0, 1-p.model.stepWith(c)/now)
}

// willStarve reports whether a run that does not wait yet consumes faster than it produces.
func (p *predictions) willStarve(m *measurements, reg *regime) bool {
	_, _, draining := m.bufferDrain()
	return draining && reg.slots.full() && p.fit.StepSec > (1+explained)*reg.ComputeSec
}

// fitOf compares the replay with the record: the worse of the median errors over the whole run and over the present
// steps, because any model meets the fast steps of a run. The beginning of a replay from the middle of a run is left
// out: what was outstanding then is not known.
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
	worst := stat.Median(errs)
	if from := min(model.stepLoop-from, len(errs)-1); from >= 0 {
		worst = max(worst, stat.Median(errs[from:]))
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

// whatIf replays with the change, and again with the other curves that the record allows, for the range.
func whatIf(model *replayModel, fact Fit, c whatIfChange) WhatIf {
	replayed := model.changed(c.change).steady()
	w := WhatIf{
		Change: c.name, Note: c.note, Command: c.command, Staler: c.staler, deeper: c.deeper,
		StepSec: meanWall(replayed.end), Onset: replayed.onset(model), Basis: Modelled,
	}
	w.Outcome = outcomeOf(w.StepSec, fact.StepSec)
	w.widen(fact, model.curve.Rise(max(1, model.load)))
	w.otherCurves(model, c)
	if (model.unlike || c.deeper && model.blurred) && w.Outcome == Helps {
		w.Outcome = MayHelp
	}
	return w
}

const (
	// leastOff is by how much any prediction may be off, and offByChange by how much more one of a change that makes
	// steps e times as long or as short: nine of ten changes that the suites really made lie within.
	leastOff, offByChange = 0.05, 0.15
	// sureOfDepth is the part of what more depth gains that nine of ten runs have of it, where engines are saturated.
	sureOfDepth = 0.3
)

// widen makes the range one that nine of ten changes come to lie in. A replay errs as it does on the record, and the
// more the more is changed. What may come to nothing within the range is open.
func (w *WhatIf) widen(fact Fit, rise float64) {
	off := leastOff + fact.MedianError + offByChange*math.Abs(math.Log(w.StepSec/fact.StepSec))
	w.LowSec, w.HighSec = w.StepSec*(1-off), w.StepSec*(1+off)
	if w.deeper { // at loads that were not seen, which engines with room bear
		sure := sureOfDepth + (1-sureOfDepth)*min(1, rise)
		w.HighSec = max(w.HighSec, fact.StepSec-sure*(fact.StepSec-w.StepSec))
	}
	unsure := w.LowSec < (1-2*minGain)*fact.StepSec
	poor := fact.MedianError > 0.8*explained || w.HighSec > (1-minGain/2)*fact.StepSec
	if w.Outcome == Helps && poor || w.Outcome == HelpsNot && unsure {
		w.Outcome = MayHelp
	}
}

// otherCurves widens the range by what other curves that the record allows make of the change. Where one of them gives
// another outcome, it is open.
func (w *WhatIf) otherCurves(model *replayModel, c whatIfChange) {
	with := func(curve capacity.Curve) float64 {
		other := model.withCurve(curve)
		sec, now := meanWall(other.changed(c.change).steady().end), meanWall(other.steady().end)
		w.LowSec, w.HighSec = min(w.LowSec, sec), max(w.HighSec, sec)
		if outcomeOf(sec, now) != w.Outcome {
			w.Outcome = MayHelp
		}
		return sec
	}
	for _, curve := range model.possible {
		with(curve)
	}
	if model.flat != nil { // two curves that differ where nothing was seen: the less the fit is sure, the more of both
		w.StepSec *= math.Pow(with(*model.flat)/w.StepSec, model.doubt*model.doubt/2)
	}
	if c.deeper && model.unmeasured { // it may as well come to nothing
		now := meanWall(model.steady().end)
		more := 1 + leastOff
		if model.shrinking {
			deep := func(p *replayModel) float64 { return float64(p.steps[len(p.steps)-1].depth) }
			more = max(more, deep(model.changed(c.change))/deep(model))
		}
		w.LowSec, w.HighSec = min(w.LowSec, (1-leastOff)*now), max(w.HighSec, more*now)
		if w.Outcome != Worse {
			w.Outcome = MayHelp
		}
	}
	if model.undecided || c.deeper && model.unmeasured {
		for _, rise := range []float64{0.02, 1} {
			with(capacity.CurveWith(rise, max(1, model.load), 1))
		}
	}
}

// outcomeOf classifies the change of a steady step from one length to another.
func outcomeOf(withSec, nowSec float64) Outcome {
	switch gain := 1 - withSec/nowSec; {
	case gain >= minGain:
		return Helps
	case gain <= -minGain/2:
		return Worse
	}
	return HelpsNot
}

const (
	// probeSteps is for how many steps a probe goes on.
	probeSteps = 2
	// leastProbed is the fewest requests in flight at an engine for which a probe is accepted.
	leastProbed = 2
)

// probeOf is the cheapest experiment that tells saturated engines from engines with room: half as many requests in
// flight. Saturated engines take as long for a step as before. It is nil where the run would refuse it: where it is
// over or soon will be, or has too little in flight to halve.
func probeOf(m *measurements, reg *regime, model *replayModel) *Probe {
	limit := int(math.Floor(reg.speed.Load / 2))
	own := m.in.Spec.Dispatch.MaxInFlightPerEngine
	claimed := int(m.steps[len(m.steps)-1].no) + 1
	switch total := m.in.Spec.Steps; {
	case m.in.Over, total > 0 && claimed+1+probeSteps >= total, reg.slots.own < leastProbed*m.fleet.engines:
		return nil
	case limit < 1 || own > 0 && limit >= own:
		return nil
	}
	now := reg.StepSec
	with := func(c capacity.Curve) float64 {
		other := model.withCurve(c)
		was := other.stepWith(change{})
		if was <= 0 {
			return now
		}
		return now * other.stepWith(change{engineLimit: limit}) / was
	}
	p := &Probe{
		Command: "millrace diagnose " + string(m.in.Spec.Name) + " --probe", MaxInFlight: limit, Steps: probeSteps,
		SaturatedSec: with(reg.speed.Saturated), FreeSec: with(reg.speed.Free),
	}
	_, squares := stat.Moments(m.values(m.present, (*step).seconds))
	noise := math.Sqrt(squares / max(1, float64(len(m.present)-1)) / probeSteps)
	if math.Abs(p.SaturatedSec-p.FreeSec) < likely*noise {
		return nil
	}
	p.Text = fmt.Sprintf("let each engine have at most %d requests in flight for %d steps, half as many as now: if a "+
		"step then takes about %s, engines are saturated and more of them help; if it takes about %s, they have room, and "+
		"depth helps", limit, p.Steps, units.Seconds(p.SaturatedSec), units.Seconds(p.FreeSec))
	return p
}
