package diagnosis

import (
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/units"
)

func (q *inquiry) fewerEngines(_ *Report, e effect) (Cause, bool) {
	before, after := q.ledger.fleetOver(e.before), q.ledger.fleetOver(e.after)
	if !before.known || !after.known {
		return Cause{}, false
	}
	text := fmt.Sprintf("the run had %s engines before and has %s now", units.Number(before.engines), units.Number(after.engines))
	if after.engines > before.engines*(1-moved) {
		return Cause{CauseEngineLost, Excluded, text, Measured}, true
	}
	name := CauseEngineLost
	if kind, ok := lastEngineEvent(q.in.Events, &q.ledger); ok && kind == EventEngineLeft {
		name, text = CauseScaleDown, text+"; the others were drained or removed"
	}
	return Cause{name, IsCause, text, Measured}, true
}

// lastEngineEvent is how the last engine to go went.
func lastEngineEvent(events []Event, l *ledger) (EventKind, bool) {
	_, end := l.steps[len(l.steps)-1].span()
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i]
		if (e.Kind == EventEngineLost || e.Kind == EventEngineLeft) && !e.At.After(end) {
			return e.Kind, true
		}
	}
	return "", false
}

func (q *inquiry) otherRuns(_ *Report, e effect) (Cause, bool) {
	if q.regime.P == nil || q.account.flight == 0 {
		return Cause{}, false
	}
	share := q.account.others() / q.account.flight
	if share == 0 {
		return Cause{CauseOtherWork, Excluded, "this run's requests account for those in flight", Measured}, true
	}
	return Cause{CauseOtherWork, e.weigh(q.butFor(q.regime.P.Sec * (1 - share))),
		fmt.Sprintf("%s of the requests in flight are not this run's", units.Percent(share)), Measured}, true
}

// adapterLoads weighs what loading adapters can have cost at most. An engine at worst serves
// nothing while it loads, so the fleet loses the loads' time divided by the engines; and it cannot
// have lost more than its slots stood empty. A trainer that waits for its publication loses the publish phase.
func (q *inquiry) adapterLoads(_ *Report, e effect) (Cause, bool) {
	if q.in.Loads == nil {
		return Cause{CauseAdapterLoad, Undecided, "adapter loads were not recorded", Measured}, true
	}
	of := func(s *step) float64 { return s.phases[publishAt] }
	lost := min(q.loadLoss(q.now), max(0, 1-q.account.share)*q.regime.StepSec)
	cost := 0.0
	if q.regime.P != nil {
		cost = q.butFor(q.regime.P.Sec - lost)
	}
	if e.what == "jump" {
		cost += max(0, q.ledger.mean(e.after, of)-q.ledger.mean(e.before, of))
	}
	return Cause{CauseAdapterLoad, e.weigh(cost), fmt.Sprintf(
		"loads took %s of each engine per step and lengthened it by at most %s", units.Seconds(q.loadLoss(q.now)), units.Seconds(cost)), Modelled}, true
}

// loadLoss is the engine time that loads took in these steps, per step and engine.
func (q *inquiry) loadLoss(positions []int) float64 {
	if len(positions) == 0 {
		return 0
	}
	sum := 0.0
	for _, i := range positions {
		from, to := q.ledger.steps[i].span()
		w := window{from, to}
		for _, load := range q.in.Loads {
			sum += w.overlap(load.At.Add(-time.Duration(load.Sec*float64(time.Second))), load.At)
		}
	}
	engines := max(1, q.ledger.fleetOver(positions).engines)
	return sum / float64(len(positions)) / engines
}

// coldEngines blames starved steps on engines that were not ready yet: fewer of them served those
// steps than serve the run at its end.
func (q *inquiry) coldEngines() []Cause {
	l := &q.ledger
	compute := medianOf(l.steps, (*step).compute)
	most := 0.0
	for i := range l.steps {
		most = max(most, l.steps[i].view().Fleet.Engines)
	}
	fewest, first, last, waited := math.Inf(1), -1, -1, 0.0
	for i := range l.steps {
		if !l.starved(i, compute) || !q.joining(i, most) {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
		waited += l.steps[i].wait()
		fewest = min(fewest, l.enginesUntil(i))
	}
	if first < 0 || q.starving() && q.fleet.engines < most*(1-moved) {
		return nil
	}
	return []Cause{{CauseColdEngines, IsCause, fmt.Sprintf(
		"steps %d to %d waited %s with %s of the later %s engines ready",
		l.steps[first].no, l.steps[last].no, units.Seconds(waited), units.Number(fewest), units.Number(most)), Measured}}
}

// joining reports whether engines were still to come when the games of step i were played.
func (q *inquiry) joining(i int, most float64) bool {
	return q.ledger.enginesUntil(i) < most*(1-moved)
}

// enginesUntil is the mean number of engines from the start of the run to the claim of step i.
func (l *ledger) enginesUntil(i int) float64 {
	sum, total := 0.0, 0.0
	for j := 0; j <= i; j++ {
		f := l.steps[j].view().Fleet
		sum += f.Engines * f.WindowSec
		total += f.WindowSec
	}
	if total == 0 {
		return math.Inf(1)
	}
	return sum / total
}
