package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/units"
)

const (
	// mostOf is the share of an effect from which on a candidate is its cause.
	mostOf = 0.5
	// someOf is the share below which a candidate is excluded.
	someOf = 0.1
	// moved is the relative change of a measure that is more than noise.
	moved = 0.10
)

// effect is what is to be explained: a jump between two stretches of steps, or, when the run is
// starved from the first step on, the wait itself.
type effect struct {
	sec    float64
	jump   *Shift // nil: it is the wait
	before []int  // empty: there is no before
	after  []int
	healed bool // the steps after are over, and shorter ones followed
}

// effectOf is the rise to the present level, or else the present wait, or else the last rise that is over.
func effectOf(m *measurements) effect {
	if m.rise != nil {
		return riseFrom(m, fastestBase(m))
	}
	if m.starving() {
		var before []int
		for i := range m.steps {
			if m.steps[i].no < m.starvation.Since {
				before = append(before, i)
			}
		}
		after := m.present
		if mean := m.mean(after, (*step).wait); mean < minWaitShare*m.mean(after, (*step).seconds) {
			after = positions(len(before), len(m.steps)) // it is the steps set aside as slow that wait
		}
		return effect{sec: m.mean(after, (*step).wait), before: before, after: after}
	}
	for i := len(m.shifts) - 1; i >= 0; i-- {
		if shift := m.shifts[i]; shift.DeltaSec > 0 {
			return effect{sec: shift.DeltaSec, jump: &shift, before: m.levelSteps[i].usual, after: m.levelSteps[i+1].usual,
				healed: true}
		}
	}
	return effect{}
}

// fastestBase is the level that a rise is from: the one before the last shifts towards slower steps, or an earlier and
// faster one, if what slowed the run down let go of it for a while.
func fastestBase(m *measurements) int {
	base := riseBase(m.shifts)
	for i := base - 1; i >= 0; i-- {
		if m.levels[i].StepSec < (1-movedLittle)*m.levels[base].StepSec {
			base = i
		}
	}
	return base
}

// riseFrom is the rise from a level to the present one.
func riseFrom(m *measurements, base int) effect {
	before, last := m.levelSteps[base], m.levelSteps[len(m.levelSteps)-1]
	jump := m.rise
	if base < riseBase(m.shifts) {
		one := m.attributed(m.shifts[base], before, last)
		jump = &one
	}
	return effect{sec: jump.DeltaSec, jump: jump, before: before.usual, after: last.usual}
}

// candidate decides about one cause; false when the question does not arise.
type candidate func(*measurements, *regime, effect) (Cause, bool)

// causesOf is the fourth stage: it decides every candidate. A healthy run has nothing to explain and gets none.
// First are the things that differ between the steps before and after a jump, by how much of it goes with them; then
// what costs time in all steps alike, and the terms of the step time themselves.
func causesOf(m *measurements, reg *regime, p *predictions) []Cause {
	out := append([]Cause{}, coldEngines(m, p)...)
	e := effectOf(m)
	if e.sec <= 0 {
		return append(out, enginesBack(m)...)
	}
	changed, explained := changedSince(m, reg, p, e)
	if earlier, ok := earlierRise(m, e); ok && !explained {
		if since, found := changedSince(m, reg, p, earlier); found {
			e, changed, explained = earlier, since, true
		}
	}
	for _, c := range changed {
		if c.Decision != Excluded {
			out = append(out, c)
		}
	}
	if !named(out, CauseEngineLost) && !named(out, CauseEngineBack) && !named(out, CauseColdEngines) {
		out = append(out, enginesBack(m)...)
	}
	for _, decide := range []candidate{
		configChange, ownPhases, throughput, latencyBound, kvLimited, tooFewWorkers, prefillDrain, sameEngines, sameWork,
		p.ownLimit, p.otherRuns, p.drops, p.throttle, staleWait, handover, p.straggler, environment, p.adapterLoads,
		refLogprobs, checkpoints,
	} {
		c, ok := decide(m, reg, e)
		switch {
		case !ok || named(out, c.Name):
			continue
		case explained && c.provenRoot(): // it was so before the jump, too
			c.Decision = Contributes
		case e.healed && c.Decision != Excluded:
			continue // the regime is that of the steps now
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// changedSince is the causes of an effect that has a before, and whether one of them is enough.
func changedSince(m *measurements, reg *regime, p *predictions, e effect) ([]Cause, bool) {
	if len(e.before) == 0 {
		return nil, false
	}
	changed := changedCauses(m, reg, p, e, compare(m, e.before, e.after, e.jump != nil))
	return changed, slices.ContainsFunc(changed, func(c Cause) bool { return c.Decision == IsCause })
}

// earlierRise is the rise to the present level from the first level that was as fast as the one before it. A few fast
// steps in a row may be a level of their own by chance, with nothing changed at its end.
func earlierRise(m *measurements, e effect) (effect, bool) {
	if m.rise == nil || e.healed {
		return e, false
	}
	base := fastestBase(m)
	for i := range base {
		if m.levels[i].StepSec < (1+movedLittle)*m.levels[base].StepSec {
			return riseFrom(m, i), true
		}
	}
	return e, false
}

// named reports whether a cause is among some.
func named(causes []Cause, name CauseName) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Name == name })
}

// rank puts what is decided first; within a decision the order stays.
func rank(c Cause) int {
	return slices.Index([]Decision{IsCause, Contributes, Possible, Undecided, Excluded}, c.Decision)
}

// weigh decides by the candidate's share of the effect.
func (e effect) weigh(sec float64) Decision {
	switch share := sec / e.sec; {
	case share >= mostOf:
		return IsCause
	case share >= someOf:
		return Contributes
	}
	return Excluded
}

// decided is a cause without the numbers of a but-for test.
func decided(name CauseName, d Decision, text string, b Basis) Cause {
	return Cause{Name: name, Decision: d, Text: text, Basis: b}
}

// proven reports whether a candidate was found to be a cause.
func proven(causes []Cause, name CauseName) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Name == name && c.Decision == IsCause })
}

// configChange is what somebody did while the batches of the jump were played, or shortly before.
func configChange(m *measurements, _ *regime, e effect) (Cause, bool) {
	if e.jump == nil {
		return Cause{}, false
	}
	from, _ := m.steps[max(0, e.after[0]-2*m.setDepth()-2)].span()
	_, to := m.steps[e.after[0]].span()
	ev := nearestEvent(m.events, from, to, to, func(ev Event) bool {
		return ev.Kind == EventTrainer || ev.Kind == EventConfig && !harmless(ev)
	})
	if ev == nil {
		text := fmt.Sprintf("nothing was changed from step %d, when the first batches of the jump can have been launched, on",
			m.stepDuring(from))
		return decided(CauseConfig, Excluded, text, Measured), true
	}
	text := fmt.Sprintf("%q was done%s", ev.Text, delayText(m, e, *ev))
	one := decided(CauseConfig, Possible, text, Measured)
	began := m.stepDuring(ev.At)
	one.Event, one.Began = ev, &began
	return one, true
}

// harmless reports whether an operator's change is of nothing that a step's time depends on.
func harmless(ev Event) bool {
	keys := edited.FindAllStringSubmatch(ev.Text, -1)
	for _, key := range keys {
		path := strings.Split(key[1], ".")
		if conditions, known := conditionsOfKey[path[len(path)-1]]; !known || len(conditions) > 0 {
			return false
		}
	}
	verb, _, _ := strings.Cut(ev.Text, " ")
	return len(keys) > 0 || verb == "start"
}

// throughput and latencyBound are the terms of the regime themselves.
func throughput(_ *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.P == nil {
		return decided(CauseThroughput, Undecided, "the fleet's capacity is not known", Measured), true
	}
	text := fmt.Sprintf("the fleet needs %s for a batch, the trainer %s",
		units.Seconds(reg.P.Sec), units.Seconds(reg.C.Sec))
	switch {
	case reg.Kind == CapacityBound && reg.Resource == EngineSpeed:
		text += fmt.Sprintf("; at %s requests in flight each takes x%.1f as long as alone", units.Number(reg.speed.Load),
			reg.speed.Curve.Slowdown(reg.speed.Load))
		return decided(CauseThroughput, IsCause, text, Modelled), true
	case reg.Kind == CapacityBound && reg.Resource == EngineSlots, reg.Resource == EngineMemory:
		return decided(CauseThroughput, IsCause, text, Measured), true
	case reg.Kind == MixedRegime || reg.Kind == NoRegime || reg.Kind == UndecidedRegime:
		return decided(CauseThroughput, Possible, text, reg.P.Basis), true
	}
	text += fmt.Sprintf("; %s of its slots are in use", units.Percent(reg.slots.share))
	return decided(CauseThroughput, Excluded, text, reg.P.Basis), true
}

func latencyBound(_ *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.LatencyPD == nil {
		return decided(CauseLatency, Undecided, "the groups' durations are not known", Measured), true
	}
	text := fmt.Sprintf("a batch takes %s; with %s outstanding one is ready every %s",
		units.Seconds(reg.R.Sec), units.Number(reg.Depth), units.Seconds(reg.LatencyPD.Sec))
	switch {
	case reg.Kind == LatencyBound:
		return decided(CauseLatency, IsCause, text, Measured), true
	case reg.Kind == CapacityBound && reg.Resource == EngineSpeed && reg.speed.RiseHigh < someOf:
		return decided(CauseLatency, Excluded, text+"; most of it is the engines' load", Measured), true
	case reg.Kind == MixedRegime || reg.Kind == UndecidedRegime || reg.explains(reg.LatencyPD):
		return decided(CauseLatency, Possible, text, Measured), true
	}
	return decided(CauseLatency, Excluded, text, Measured), true
}

func tooFewWorkers(m *measurements, reg *regime, _ effect) (Cause, bool) {
	if reg.Resource != WorkerSlots {
		return Cause{}, false
	}
	text := fmt.Sprintf("groups stood %s launched and not started while engines had free slots",
		units.Seconds(m.startGap()))
	return decided(CauseWorkers, IsCause, text, Measured), true
}
