package diagnosis

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/units"
)

// sameWork says what a batch's work was, where no change of it explains anything.
func sameWork(m *measurements, _ *regime, e effect) (Cause, bool) {
	before, after := m.mean(e.before, batchSum(requestSec)), m.mean(e.after, batchSum(requestSec))
	if before == 0 || after == 0 {
		return Cause{}, false
	}
	text := fmt.Sprintf("a batch's work is %s request-seconds, was %s", units.Number(after), units.Number(before))
	return decided(CauseLongerGames, Excluded, text, Measured), true
}

// drops weighs the groups that are played and not trained on.
func (p *predictions) drops(m *measurements, reg *regime, e effect) (Cause, bool) {
	rate := m.dropRate(e.after)
	text := fmt.Sprintf("%.2f groups dropped for each one trained on%s", rate, dropsOf(m).text())
	if reg.P == nil {
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
	if !known || e.healed {
		return decided(CauseStraggler, e.weigh(late), text, Measured), true
	}
	text += fmt.Sprintf("; without games and groups that take more than %s times as long as others, a step would be %s "+
		"shorter", units.Number(oddOne), units.Seconds(saved))
	one := decided(CauseStraggler, e.weigh(saved), text, Modelled)
	one.Fix = stragglerFix(m, nil)
	return one, true
}

// savedWithoutOddOnes is by how much a step would be shorter if no game of a group, and no group of a batch, took much
// longer than a typical one.
func (p *predictions) savedWithoutOddOnes(reg *regime) (float64, bool) {
	if p.model == nil || !p.fit.Explains {
		return 0, false
	}
	q := p.model.changed(change{})
	var alone []float64
	for i := range q.groups {
		g := &q.groups[i]
		if n := len(g.lengths); n >= 3 && g.lengths[n-1] > oddOne*median(g.lengths) {
			g.shorterBy(oddOne * median(g.lengths) / g.lengths[n-1])
		}
		if i >= q.groupLoop {
			alone = append(alone, g.alone)
		}
	}
	most := oddOne * median(alone)
	for i := range q.groups {
		if g := &q.groups[i]; g.alone > most {
			g.shorterBy(most / g.alone)
		}
	}
	now, without := p.model.stepWith(change{}), q.present().steadyStep()
	if !(now > 0) || !(without > 0) {
		return 0, false
	}
	return reg.StepSec * max(0, 1-without/now), true
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

// environment weighs the games' own part of the wait for the groups that completed the batches.
func environment(m *measurements, _ *regime, e effect) (Cause, bool) {
	sec := 0.0
	for _, part := range m.waitParts(e.after) {
		if part.Place == PlaceEnv {
			sec = part.Sec
		}
	}
	text := fmt.Sprintf("%s of the wait was spent inside the game", units.Seconds(sec))
	return decided(CauseEnvironment, e.weigh(sec), text, Measured), true
}
