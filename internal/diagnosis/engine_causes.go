package diagnosis

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
)

// fewerEnginesCause is how the engines went that were there before, and whether they are back.
func fewerEnginesCause(m *measurements, c *comparison) CauseName {
	if from, to, ok := eventWindow(m, c, condEngines); ok {
		ev := nearestEvent(m.events, from, to, c.began(m, condEngines), func(ev Event) bool {
			return ev.Kind == EventEngineLost || ev.Kind == EventEngineLeft
		})
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

// lately is how many steps back the fleet's events are reported, whether they cost anything or not.
const lately = 10

// ofFleet reports whether an event is of the fleet.
func (ev Event) ofFleet() bool {
	return slices.Contains([]EventKind{EventEngineJoined, EventEngineLost, EventEngineLeft}, ev.Kind) || isSlowEngine(ev)
}

// fleetEvents are those of the last steps, and since the run became slower.
func fleetEvents(m *measurements) []FleetEvent {
	out := []FleetEvent{}
	from := m.all[len(m.all)-1].no - lately
	if m.rise != nil {
		from = min(from, m.rise.At-rollout.Step(m.mostOutstanding()))
	}
	for _, ev := range m.events {
		if no := m.stepDuring(ev.At); no >= max(from, 1) && ev.ofFleet() {
			out = append(out, FleetEvent{no, ev})
		}
	}
	return out
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
	ev := decisionBehind(m, nearestEvent(m.events, from, to, to, func(ev Event) bool {
		return ev.Kind == EventEngineLost || ev.Kind == EventEngineLeft
	}))
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

// engineDip is some steps in which engines were not there that had been, and came back.
type engineDip struct {
	first, last int // positions
	fewest      float64
	usual       float64
}

// engineDips finds them. Engines that had never been ready before are cold ones, and no dip.
func engineDips(m *measurements) []engineDip {
	var dips []engineDip
	most, open := 0.0, -1
	for i := range m.steps {
		f := m.steps[i].view().Fleet
		if f.Engines <= 0 || f.WindowSec <= 0 {
			continue
		}
		switch short := f.Engines < most*(1-moved); {
		case short && open < 0:
			dips = append(dips, engineDip{first: i, last: i, fewest: f.Engines, usual: most})
			open = len(dips) - 1
		case short:
			dips[open].last, dips[open].fewest = i, min(dips[open].fewest, f.Engines)
		default:
			open = -1
		}
		most = max(most, f.Engines)
	}
	if open >= 0 { // they are not back
		dips = dips[:open]
	}
	return dips
}

// enginesBack weighs engines that were lost and have returned: the steps of that time, and of the time that a full
// buffer took to show it, against the others.
func enginesBack(m *measurements) []Cause {
	var out []Cause
	for _, dip := range engineDips(m) {
		end := min(len(m.steps), dip.last+1+m.setDepth())
		during := positions(dip.first, end)
		var others []int
		for i := range m.steps {
			if i < dip.first || i >= end {
				others = append(others, i)
			}
		}
		if len(others) == 0 {
			continue
		}
		usual := stat.Median(m.values(others, (*step).seconds))
		excess, worst := 0.0, 0.0
		for _, i := range during {
			excess += max(0, m.steps[i].wall-usual)
			worst = max(worst, m.steps[i].wall)
		}
		if worst < (1+moved)*usual || excess < moved*usual {
			continue
		}
		text := fmt.Sprintf("%s of %s engines were ready in steps %d to %d, and are back: the steps until %d took %s more "+
			"than usual together, the slowest %s instead of %s", units.Number(dip.fewest), units.Number(dip.usual),
			m.steps[dip.first].no, m.steps[dip.last].no, m.steps[end-1].no, units.Seconds(excess), units.Seconds(worst),
			units.Seconds(usual))
		one := decided(CauseEngineBack, IsCause, text, Measured)
		began, felt := m.steps[dip.first].no, m.steps[dip.first].no
		for _, i := range during {
			if m.steps[i].wall >= (1+moved)*usual {
				felt = m.steps[i].no
				break
			}
		}
		from, _ := m.steps[dip.first].span()
		if _, to := m.steps[dip.last].span(); !from.IsZero() {
			slack := seconds(usual)
			if ev := decisionBehind(m, nearestEvent(m.events, from.Add(-slack), to, from, func(ev Event) bool {
				return ev.Kind == EventEngineLost || ev.Kind == EventEngineLeft
			})); ev != nil {
				one.Event, began = ev, m.stepDuring(ev.At)
				one.Text = fmt.Sprintf("%s in step %d, felt from step %d: %s", ev.Text, began, felt, one.Text)
				if ev.Kind == EventEngineLeft {
					one.Name = CauseScaleDown
				}
			}
		}
		one.Began, one.Felt = &began, &felt
		one.Evidence = []Evidence{{text, Measured}}
		for _, ev := range m.events {
			if ev.Kind == EventEngineJoined || ev.Kind == EventEngineLost {
				one.Evidence = append(one.Evidence, Evidence{fmt.Sprintf("%s in step %d", ev.Text, m.stepDuring(ev.At)), Measured})
			}
		}
		one.Fix = &Fix{Text: enginesAreThere}
		out = append(out, one)
	}
	if len(out) > 1 {
		out = out[len(out)-1:]
	}
	return out
}

// otherRuns weighs what other work at the engines costs.
func (p *predictions) otherRuns(_ *measurements, reg *regime, e effect) (Cause, bool) {
	if reg.P == nil || reg.slots.others() == 0 {
		return Cause{}, false
	}
	share := reg.slots.others() / reg.slots.inFlight
	text := fmt.Sprintf("%s of the requests in flight are not this run's", units.Percent(share))
	return decided(CauseOtherWork, e.weigh(p.gain(reg, change{otherWork: 1e-9})), text, Modelled), true
}

// ownLimit weighs the run's own limit of requests in flight at an engine.
func (p *predictions) ownLimit(m *measurements, reg *regime, e effect) (Cause, bool) {
	limit := float64(m.in.Spec.Dispatch.MaxInFlightPerEngine)
	if limit == 0 || reg.P == nil || m.fleet.engines == 0 {
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

// coldEngines blames starved steps on engines that were not ready yet, and had never been: with all of them ready from
// the start, most of the run's waiting would not have been.
func coldEngines(m *measurements, p *predictions) []Cause {
	most := mostEngines(m)
	cold := coldStarvedSteps(m, most)
	if len(cold) == 0 || m.starving() && m.fleet.engines < most*(1-moved) {
		return nil
	}
	waited, fewest := 0.0, math.Inf(1)
	for _, i := range cold {
		waited += m.steps[i].wait()
		fewest = min(fewest, m.enginesUntil(i))
	}
	first, last := m.steps[cold[0]].no, m.steps[cold[len(cold)-1]].no
	text := fmt.Sprintf("steps %d to %d waited %s with %s of the later %s engines ready",
		first, last, units.Seconds(waited), units.Number(fewest), units.Number(most))
	all := 0.0
	for i := range m.steps {
		all += m.steps[i].wait()
	}
	spared, basis := waited, Measured
	if saved, known := p.savedByWarmEngines(first, last, waited, most); known {
		spared, basis = saved*waited, Modelled
		text += fmt.Sprintf("; had they been ready from the start, it would have been %s less", units.Seconds(spared))
	}
	return []Cause{decided(CauseColdEngines, decisionOf(Share{Of: spared / all}), text, basis)}
}

// coldStarvedSteps is the starved steps whose batches were played, at least in part, before all engines had been ready.
func coldStarvedSteps(m *measurements, most float64) []int {
	compute := m.usualCompute()
	var cold []int
	seen := 0.0
	for i := range m.steps {
		seen = max(seen, m.steps[i].view().Fleet.Engines)
		if seen >= most*(1-moved) && m.enginesUntil(i) < most*(1-moved) && m.lostBefore(i, most) {
			break // from here on it is engines that were there, and went
		}
		if m.starved(i, compute) && m.enginesUntil(i) < most*(1-moved) {
			cold = append(cold, i)
		}
	}
	return cold
}

// savedByWarmEngines is the share of the waits of some steps that would not have been had all engines been ready from
// the start: by the replay of the run from its start, with groups as they are played now; false where the record does
// not begin with the run.
func (p *predictions) savedByWarmEngines(first, last rollout.Step, waited, most float64) (float64, bool) {
	if p.model == nil || p.model.from > 0 || waited <= 0 {
		return 0, false
	}
	warm := *p.model
	warm.groups, warm.groupLoop = p.model.groups[p.model.groupLoop:], 0
	warm.windows, warm.engines = nil, most
	left := 0.0
	for k, s := range warm.replay(int(last) + 1) {
		if k >= int(first) {
			left += s.wait
		}
	}
	return max(0, 1-left/waited), true
}

// lostBefore reports whether there were about as many engines as ever before a step, and fewer since.
func (h *history) lostBefore(i int, most float64) bool {
	full := false
	for j := 0; j <= i; j++ {
		f := h.steps[j].view().Fleet
		if f.Engines >= most*(1-moved) {
			full = true
		} else if full && f.Engines > 0 {
			return true
		}
	}
	return false
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
