package diagnosis

import (
	"fmt"

	"github.com/millrace/millrace/internal/kit/units"
)

// otherRuns weighs what other work at the engines costs.
func (p *predictions) otherRuns(_ *measurements, reg *regime, e effect) (Cause, bool) {
	if reg.slots.others() == 0 {
		return Cause{}, false
	}
	share := reg.slots.others() / reg.slots.inFlight
	text := fmt.Sprintf("%s of the requests in flight are not this run's", units.Percent(share))
	return decided(CauseOtherWork, e.weigh(p.gain(reg, change{otherWork: 1e-9})), text, Modelled), true
}

// ownLimit weighs the run's own limit of requests in flight at an engine.
func (p *predictions) ownLimit(m *measurements, reg *regime, e effect) (Cause, bool) {
	limit := float64(m.in.Spec.Dispatch.MaxInFlightPerEngine)
	if limit == 0 || m.fleet.engines == 0 {
		return Cause{}, false
	}
	engines := m.fleet.slots / m.fleet.engines
	text := ownLimitText(limit, engines)
	if engines <= limit*(1+moved) || !reg.slots.full() {
		return Cause{}, false
	}
	cost := p.gain(reg, change{engineLimit: int(engines)})
	return decided(CauseOwnLimit, e.weigh(cost), text, Modelled), true
}

// adapterLoads weighs what loading adapters can have cost at most. An engine at worst serves nothing while it loads. A
// trainer that waits for its publication loses the publish phase.
func (p *predictions) adapterLoads(m *measurements, reg *regime, e effect) (Cause, bool) {
	if m.in.Loads == nil {
		return decided(CauseAdapterLoad, Undecided, "adapter loads were not recorded", Measured), true
	}
	loading := loadSecPerStep(m)
	lost := loading
	if loading < moved*reg.StepSec { // a short one delays what is to begin, a long one what is in flight, too
		lost = min(loading, max(0, 1-reg.slots.share)*reg.StepSec)
	}
	cost := p.gain(reg, change{stallSec: -lost})
	if e.jump != nil {
		cost += max(0, min(loading, m.mean(e.after, phaseSec(publishAt))-m.mean(e.before, phaseSec(publishAt))))
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
		sum += m.loading.in(m.steps[i].span())
	}
	return sum / float64(len(m.present)) / max(1, m.fleet.engines)
}
