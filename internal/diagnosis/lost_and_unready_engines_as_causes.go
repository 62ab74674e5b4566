package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
)

// fewerEnginesCause is how the engines went that were there before, and whether they are back.
func fewerEnginesCause(m *measurements, c *comparison) CauseName {
	if from, to, ok := eventWindow(m, c, condEngines); ok {
		ev := nearestEvent(m.events, from, to, c.began(m, condEngines), isLoss)
		if ev != nil && ev.Kind == EventEngineLeft {
			return CauseScaleDown
		}
	}
	last := m.steps[len(m.steps)-1].view().Fleet.Engines
	if last >= (1-moved)*c.old[condEngines] {
		return CauseEngineBack
	}
	return CauseEngineLost
}

// unexplainedLoss is engines that went about when a run became slower that nothing else explains: the model may be
// wrong about what they were worth, the record is not about their having gone.
func unexplainedLoss(m *measurements, e effect, explained bool) (Cause, bool) {
	if e.jump == nil {
		return Cause{}, false
	}
	felt := e.after[0]
	from, _ := m.steps[max(0, felt-m.mostOutstanding()-1)].span()
	_, to := m.steps[felt].span()
	ev := decisionBehind(m, joinedEvents(m.events, from, to, nearestEvent(m.events, from, to, to, isLoss)))
	before, after := m.engines(e.before), m.engines(e.after)
	if ev == nil || after > (1-moved)*before {
		return Cause{}, false
	}
	text := fmt.Sprintf("%s%s: engines that are ready: %s, were %s", ev.Text, delayText(m, e, *ev), units.Number(after),
		units.Number(before))
	one := decided(CauseEngineLost, Possible, text, Measured)
	if !explained {
		one.Decision = IsCause
	}
	if ev.Kind == EventEngineLeft {
		one.Name = CauseScaleDown
	}
	began := m.stepDuring(ev.At)
	one.Event, one.Began, one.Evidence = ev, &began, []Evidence{{text, Measured}}
	one.Fix = fix(m, "bring the engines back", m.moreEngines())
	return one, true
}

// engines is how many there were on the mean of some steps.
func (h *history) engines(steps []int) float64 { return h.fleetOver(steps).engines }

// enginesNotReady weighs engines that were not ready for a time, and are now: the steps of that time, and of the time
// that a full buffer took to show it, against the others. Engines that had never been ready before were cold.
func enginesNotReady(m *measurements) []Cause {
	var out []Cause
	n, most := len(m.steps), mostEngines(m)
	short := func(i int) bool {
		engines := m.steps[i].view().Fleet.Engines
		return engines > 0 && engines < (1-moved)*most
	}
	for from := 0; from < n; from++ {
		to := from
		for to < n && short(to) {
			to++
		}
		if to == n { // they are not back, or never were gone
			break
		}
		if to > from {
			out = append(out, notReadyDuring(m, from, to, most)...)
		}
		from = to
	}
	return out[max(0, len(out)-1):]
}

// notReadyDuring is engines that were not ready in the steps [from, to); none where no step was much longer for it.
func notReadyDuring(m *measurements, from, to int, most float64) []Cause {
	end := min(len(m.steps), to+m.setDepth())
	others := append(positions(0, from), positions(end, len(m.steps))...)
	usual := stat.Median(m.values(others, (*step).seconds))
	excess, worst, fewest, felt := 0.0, 0.0, most, end
	for i := from; i < end; i++ {
		excess += max(0, m.steps[i].wall-usual)
		worst = max(worst, m.steps[i].wall)
		if m.steps[i].wall >= (1+moved)*usual {
			felt = min(felt, i)
		}
		if i < to {
			fewest = min(fewest, m.steps[i].view().Fleet.Engines)
		}
	}
	if len(others) == 0 || felt == end || excess < moved*usual {
		return nil
	}
	text := fmt.Sprintf("%s of %s engines were ready in steps %d to %d, and all are now: the steps until %d took %s more "+
		"than usual together, the slowest %s instead of %s", units.Number(fewest), units.Number(most), m.steps[from].no,
		m.steps[to-1].no, m.steps[end-1].no, units.Seconds(excess), units.Seconds(worst), units.Seconds(usual))
	one := decided(CauseEngineBack, IsCause, text, Measured)
	if from == 0 {
		waits := m.mean(positions(0, len(m.steps)), (*step).wait) * float64(len(m.steps))
		one.Name, one.Decision = CauseColdEngines, decisionOf(Share{Of: excess / waits})
	}
	one.Began, one.Felt = &m.steps[from].no, &m.steps[felt].no
	one.Fix = &Fix{Text: enginesAreThere}
	began, _ := m.steps[from].span()
	_, ended := m.steps[to-1].span()
	if ev := decisionBehind(m, nearestEvent(m.events, began.Add(-seconds(usual)), ended, began, isLoss)); ev != nil {
		no := m.stepDuring(ev.At)
		one.Event, one.Began = ev, &no
		one.Text = fmt.Sprintf("%s in step %d, felt from step %d: %s", ev.Text, no, *one.Felt, text)
		if ev.Kind == EventEngineLeft {
			one.Name = CauseScaleDown
		}
	}
	return []Cause{one}
}

// isLoss reports whether engines became fewer.
func isLoss(ev Event) bool { return ev.Kind == EventEngineLost || ev.Kind == EventEngineLeft }
