package diagnosis

import (
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/units"
)

func fewerEngines(m *measurements, _ *regime, e effect) (Cause, bool) {
	before, after := m.fleetOver(e.before), m.fleetOver(e.after)
	if !before.known || !after.known {
		return Cause{}, false
	}
	text := fmt.Sprintf("the run had %s engines before and has %s now",
		units.Number(before.engines), units.Number(after.engines))
	if after.engines > before.engines*(1-moved) {
		return decided(CauseEngineLost, Excluded, text, Measured), true
	}
	if kind, ok := lastEngineEvent(m); ok && kind == EventEngineLeft {
		return decided(CauseScaleDown, IsCause, text+"; the others were drained or removed", Measured), true
	}
	return decided(CauseEngineLost, IsCause, text, Measured), true
}

// lastEngineEvent is how the last engine to go went.
func lastEngineEvent(m *measurements) (EventKind, bool) {
	_, end := m.steps[len(m.steps)-1].span()
	for i := len(m.events) - 1; i >= 0; i-- {
		e := m.events[i]
		if (e.Kind == EventEngineLost || e.Kind == EventEngineLeft) && !e.At.After(end) {
			return e.Kind, true
		}
	}
	return "", false
}

func otherRuns(_ *measurements, reg *regime, e effect) (Cause, bool) {
	if reg.P == nil || reg.slots.inFlight == 0 {
		return Cause{}, false
	}
	share := reg.slots.others() / reg.slots.inFlight
	if share == 0 {
		return decided(CauseOtherWork, Excluded, "this run's requests account for those in flight", Measured), true
	}
	text := fmt.Sprintf("%s of the requests in flight are not this run's", units.Percent(share))
	return decided(CauseOtherWork, e.weigh(reg.counterfactualGain(reg.P.Sec*(1-share))), text, Measured), true
}

// adapterLoads weighs what loading adapters can have cost at most. An engine at worst serves
// nothing while it loads, so the fleet loses the loads' time divided by the engines; and it cannot
// have lost more than its slots stood empty. A trainer that waits for its publication loses the publish phase.
func adapterLoads(m *measurements, reg *regime, e effect) (Cause, bool) {
	if m.in.Loads == nil {
		return decided(CauseAdapterLoad, Undecided, "adapter loads were not recorded", Measured), true
	}
	loading := loadSecPerStep(m)
	lost := min(loading, max(0, 1-reg.slots.share)*reg.StepSec)
	cost := 0.0
	if reg.P != nil {
		cost = reg.counterfactualGain(reg.P.Sec - lost)
	}
	if e.jump != nil {
		cost += max(0, m.mean(e.after, phaseSec(publishAt))-m.mean(e.before, phaseSec(publishAt)))
	}
	text := fmt.Sprintf("loads took %s of each engine per step and lengthened it by at most %s",
		units.Seconds(loading), units.Seconds(cost))
	return decided(CauseAdapterLoad, e.weigh(cost), text, Modelled), true
}

// loadSecPerStep is the engine time that adapter loads take in the present steps, per step and engine.
func loadSecPerStep(m *measurements) float64 {
	if len(m.present) == 0 {
		return 0
	}
	sum := 0.0
	for _, i := range m.present {
		from, to := m.steps[i].span()
		w := window{from, to}
		for _, load := range m.in.Loads {
			sum += w.overlap(load.At.Add(-time.Duration(load.Sec*float64(time.Second))), load.At)
		}
	}
	return sum / float64(len(m.present)) / max(1, m.fleet.engines)
}

// coldEngines blames starved steps on engines that were not ready yet: fewer of them served those
// steps than serve the run at its end.
func coldEngines(m *measurements) []Cause {
	compute := medianOf(m.steps, (*step).compute)
	most := 0.0
	for i := range m.steps {
		most = max(most, m.steps[i].view().Fleet.Engines)
	}
	fewest, first, last, waited := math.Inf(1), -1, -1, 0.0
	for i := range m.steps {
		if !m.starved(i, compute) {
			continue
		}
		engines := m.enginesUntil(i)
		if engines >= most*(1-moved) { // none was still to come when the games of this step were played
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
		waited += m.steps[i].wait()
		fewest = min(fewest, engines)
	}
	if first < 0 || m.starving() && m.fleet.engines < most*(1-moved) {
		return nil
	}
	text := fmt.Sprintf("steps %d to %d waited %s with %s of the later %s engines ready",
		m.steps[first].no, m.steps[last].no, units.Seconds(waited), units.Number(fewest), units.Number(most))
	return []Cause{decided(CauseColdEngines, IsCause, text, Measured)}
}

// enginesUntil is the mean number of engines from the start of the run to the claim of step i.
func (h *history) enginesUntil(i int) float64 {
	sum, total := 0.0, 0.0
	for j := 0; j <= i; j++ {
		f := h.steps[j].view().Fleet
		sum += f.Engines * f.WindowSec
		total += f.WindowSec
	}
	if total == 0 {
		return math.Inf(1)
	}
	return sum / total
}
