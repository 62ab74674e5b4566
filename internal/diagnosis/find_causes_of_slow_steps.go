package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

const (
	// mostOf is the share of an effect from which a candidate counts as its cause: half, as it is shown.
	mostOf = 0.495
	// someOf is the share below which a candidate is no cause.
	someOf = 0.1
	// moved is the relative change of a measure that exceeds noise.
	moved = 0.10
)

// effect is the thing to be explained: a jump between two stretches of steps, or, when the run is starved from the
// first step on, the wait itself.
type effect struct {
	sec    float64
	jump   *Shift // nil: it is the wait
	before []int  // empty: there is no before
	after  []int
}

// effectsOf is what may be to explain, the likeliest first: the rise to the present level from each faster level before
// it, the latest first; and where none is faster, the present wait. A run that waited already became slower from its
// latest level. One that a cause slowed down by and by did so from an earlier one.
func effectsOf(m *measurements) []effect {
	var rises []effect
	last := len(m.levels) - 1
	for base := last - 1; base >= 0; base-- {
		faster := m.levels[base].StepSec < (1-movedLittle)*m.levels[last].StepSec
		if faster && (m.rise != nil || m.starving()) && (base > 0 || !m.onlyPrefilled(base) || len(rises) == 0) {
			rises = append(rises, riseFrom(m, base))
		}
	}
	if len(rises) > 0 {
		return rises
	}
	if m.rise != nil {
		return []effect{riseFrom(m, riseBase(m.shifts))}
	}
	if m.starving() {
		return []effect{presentWait(m)}
	}
	return nil
}

// onlyPrefilled reports whether all batches of a level were launched before the first step.
func (m *measurements) onlyPrefilled(level int) bool {
	return int(m.levels[level].To) < m.mostOutstanding()
}

// presentWait is the wait of a run whose steps are as they were.
func presentWait(m *measurements) effect {
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

// riseFrom is the rise from a level to the present one.
func riseFrom(m *measurements, base int) effect {
	before, last := m.levelSteps[base], m.levelSteps[len(m.levelSteps)-1]
	jump := m.rise
	if jump == nil || base != riseBase(m.shifts) {
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
	out, unready := []Cause{}, enginesNotReady(m)
	effects := effectsOf(m)
	if len(effects) == 0 || effects[0].sec <= 0 || named(unready, CauseColdEngines) {
		out, unready = append(out, unready...), nil
	}
	if len(effects) == 0 || effects[0].sec <= 0 {
		return out
	}
	e, changed, explained := likeliestChange(m, reg, p, effects)
	out = append(out, changed...)
	if lost, went := unexplainedLoss(m, e, explained); went && !named(out, lost.Name) && !named(out, CauseConfig) {
		out = append(out, lost)
		explained = explained || lost.Decision == IsCause
	}
	if !named(out, CauseEngineLost) && !named(out, CauseEngineBack) {
		out = append(out, unready...)
	}
	for _, decide := range []candidate{
		configChange, ofRegime, kvLimited, adapterSlots, p.slowFromTheStart, environment, p.ownLimit, p.otherRuns,
		p.drops, p.throttle, staleWait, handover, p.straggler, p.adapterLoads,
	} {
		c, ok := decide(m, reg, e)
		if !ok || c.Decision == notACause || named(out, c.Name) {
			continue
		}
		if explained && c.provenRoot() { // it was so before the jump, too
			c.Decision = Contributes
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Cause) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// slowTime is a time in which the run was slow, and no longer is.
type slowTime struct {
	rise     Shift
	to       rollout.Step // its last
	byCauses []Cause
}

// slowTimeOver is the last such time, explained as it was when it ended; nil: the run is slow now, or never was.
func slowTimeOver(m *measurements) *slowTime {
	if effects := effectsOf(m); len(effects) > 0 && effects[0].sec > 0 {
		return nil
	}
	at := len(m.shifts) - 1
	for at >= 0 && m.shifts[at].DeltaSec <= 0 {
		at--
	}
	if at < 0 {
		return nil
	}
	then := m.untilEndOf(at + 1)
	reg := regimeOf(&then)
	p := replayOf(&then, &reg)
	over := &slowTime{rise: *then.rise, to: then.steps[len(then.steps)-1].no}
	now := m.steps[len(m.steps)-1].view().Fleet.Engines
	for _, c := range causesOf(&then, &reg, &p) {
		if c.Name == CauseEngineLost && now > (1+moved)*then.fleet.engines {
			c.Name, c.Fix = CauseEngineBack, &Fix{Text: enginesAreThere}
		}
		if c.Decision == IsCause || c.Decision == Contributes {
			over.byCauses = append(over.byCauses, c)
		}
	}
	return over
}

// likeliestChange is the first effect that something which changed explains; where none does, the widest.
func likeliestChange(m *measurements, reg *regime, p *predictions, effects []effect) (effect, []Cause, bool) {
	for i, e := range effects {
		changed, explained := changedSince(m, reg, p, e)
		if explained || i == len(effects)-1 {
			return e, changed, explained
		}
	}
	return effect{}, nil, false
}

// changedSince lists the causes of an effect that has a before, and reports whether one of them is enough.
func changedSince(m *measurements, reg *regime, p *predictions, e effect) ([]Cause, bool) {
	if len(e.before) == 0 {
		return nil, false
	}
	changed := changedCauses(m, reg, p, e, compare(m, e.before, e.after, e.jump != nil))
	changed = slices.DeleteFunc(changed, func(c Cause) bool { return c.Decision == notACause })
	return changed, slices.ContainsFunc(changed, func(c Cause) bool { return c.Decision == IsCause })
}

// named reports whether a cause is among some.
func named(causes []Cause, name CauseName) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Name == name })
}

// rank puts what is decided first; within a decision the order stays.
func rank(c Cause) int {
	return slices.Index([]Decision{IsCause, Contributes, Possible, Undecided}, c.Decision)
}

// weigh decides by the candidate's share of the effect.
func (e effect) weigh(sec float64) Decision {
	switch share := sec / e.sec; {
	case share >= mostOf:
		return IsCause
	case share >= someOf:
		return Contributes
	}
	return notACause
}

// decided is a cause without the numbers of a but-for test.
func decided(name CauseName, d Decision, text string, b Basis) Cause {
	return Cause{Name: name, Decision: d, Text: text, Basis: b}
}

// proven reports whether a candidate was found to be a cause.
func proven(causes []Cause, name CauseName) bool {
	return slices.ContainsFunc(causes, func(c Cause) bool { return c.Name == name && c.Decision == IsCause })
}

// configChange is a change that operators made while the batches of the jump were played, or shortly before.
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
		return Cause{}, false
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

// ofRegime is the limit of the step time itself.
func ofRegime(_ *measurements, reg *regime, _ effect) (Cause, bool) {
	name := causeOfRegime(reg)
	text := strings.TrimPrefix(becauseOfRegime(reg), "because ")
	return decided(name, IsCause, text, Measured), name != CauseStarvation
}

// drops weighs the groups that are played and not trained on.
func (p *predictions) drops(m *measurements, reg *regime, e effect) (Cause, bool) {
	rate := m.dropRate(e.after)
	text := fmt.Sprintf("%.2f groups dropped for each one trained on%s", rate, dropsOf(m).text())
	if p.model == nil {
		return decided(CauseDrops, Undecided, text, Measured), rate > 0
	}
	return decided(CauseDrops, e.weigh(p.gain(reg, change{games: 1 / (1 + rate)})), text, Modelled), true
}

// straggler weighs games and groups that take far longer than the others: without them, by the replay, or else by how
// much later the last group came.
func (p *predictions) straggler(m *measurements, reg *regime, e effect) (Cause, bool) {
	if !m.hasGroups() {
		return decided(CauseStraggler, Undecided, "the groups' times are not known", Measured), true
	}
	late := m.mean(e.after, (*step).lateTail)
	text := fmt.Sprintf("the last group came %s later than an even spacing would have it", units.Seconds(late))
	saved, known := p.savedWithoutOddOnes(reg)
	if !known {
		return decided(CauseStraggler, e.weigh(late), text, Measured), true
	}
	text += fmt.Sprintf("; without games and groups that take more than %s times as long as others, a step would be %s "+
		"shorter", units.Number(oddOne), units.Seconds(saved))
	one := decided(CauseStraggler, e.weigh(saved), text, Modelled)
	one.Fix = stragglerFix(m, nil)
	return one, true
}

// oddOne is how many times as long as a typical one the odd game of a group takes.
const oddOne = 1.5

// savedWithoutOddOnes is how much shorter a step would be if no game of a group, and no group of a batch, took much
// longer than a typical one.
func (p *predictions) savedWithoutOddOnes(reg *regime) (float64, bool) {
	if p.model == nil || !p.fit.Explains {
		return 0, false
	}
	q := p.model.changed(change{})
	for i := range q.groups {
		g := &q.groups[i]
		if n := len(g.lengths); n >= 3 && g.lengths[n-1] > oddOne*stat.Median(g.lengths) {
			g.shorterBy(oddOne * stat.Median(g.lengths) / g.lengths[n-1])
		}
	}
	q.capGroups(oddOne * stat.Median(q.aloneSec()))
	now, without := p.model.stepWith(change{}), q.present().steadyStep()
	if !(now > 0) || !(without > 0) {
		return 0, false
	}
	return reg.StepSec * max(0, 1-without/now), true
}

// environment is games that spend most of their time outside of engines, and the trainer's wait with it.
func environment(m *measurements, _ *regime, e effect) (Cause, bool) {
	sec := m.mean(e.after, func(s *step) float64 { return s.waitByPlace()[slices.Index(places(), PlaceEnv)] })
	text := fmt.Sprintf("games spend %s of their time in the environment, and so %s of the wait",
		units.Percent(m.outsideShare()), units.Seconds(sec))
	one := decided(CauseEnvironment, e.weigh(sec), text, Measured)
	one.Fix = &Fix{Text: fixTexts[CauseEnvironment]}
	return one, one.Decision == IsCause && m.outsideShare() > mostOutside
}

// handover weighs the time in which a batch was ready and the trainer did not have it.
func handover(m *measurements, _ *regime, e effect) (Cause, bool) {
	sec := m.mean(e.after, func(s *step) float64 {
		if m.heldBack(s) {
			return 0
		}
		return s.waitByPlace()[slices.Index(places(), PlaceHandover)]
	})
	text := fmt.Sprintf("a batch that was ready took %s to reach the trainer", units.Seconds(sec))
	return decided(CauseHandover, e.weigh(sec), text, Measured), true
}
