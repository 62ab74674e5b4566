package diagnosis

import (
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/internal/units"
)

const (
	// fullSlots is the share of slots in use from which on the engines are the limit.
	fullSlots = 0.85
	// queueingSlots is the share from which on a standing queue shows that no more fits.
	queueingSlots = 0.70
	// closeTo is how far a term may be from the observed step and still explain it.
	closeTo = 0.15
	// disagree is how far the arrivals may be from P before it is said.
	disagree = 0.20
	// gapShare is the share of a step that groups stand unstarted, beside free slots, before workers are to blame.
	gapShare = 0.20
)

// readRegime measures C, P and R/D and says which of them is the step time.
func (q *inquiry) readRegime(r *Report) {
	l := &q.ledger
	q.fleet = l.fleetOver(q.now)
	q.regime = Regime{
		Kind:     NoRegime,
		StepSec:  l.mean(q.now, (*step).seconds),
		C:        Quantity{l.mean(q.now, (*step).compute), Measured, "step less wait"},
		Depth:    float64(max(1, min(q.setDepth(), q.fitted()))),
		Evidence: []Evidence{},
	}
	q.takeAccount()
	if !q.hasGroups() {
		r.Missing = append(r.Missing, "group timelines in the step records")
	} else {
		q.measureLatency()
	}
	if !q.fleet.known {
		r.Missing = append(r.Missing, "engine samples: without them a full fleet cannot be told from a slow game")
	} else if q.hasGroups() {
		q.measureProduction()
	}
	q.chooseRegime(r)
	q.regime.Evidence = q.regimeEvidence()
	r.Regime = q.regime
}

func (q *inquiry) hasGroups() bool { return q.ledger.mean(q.now, batchWork(work)) > 0 }

// measureProduction states how long the fleet needs for one batch's work. Slots that other work of
// the fleet holds are not this run's.
func (q *inquiry) measureProduction() {
	a := q.account
	slots := a.slots
	if a.queueing() {
		slots = min(slots, a.flight) // as many as are ever used, with requests waiting
	}
	slots -= a.others()
	if slots <= 0 {
		return
	}
	perBatch := q.workPerBatch()
	p := &Quantity{perBatch / slots, Measured, fmt.Sprintf("%s request-seconds / %s slots", units.Number(perBatch), units.Number(slots))}
	if !a.full() {
		p.Basis = Modelled
		p.How += ", if full slots cost no speed"
	}
	q.regime.P = p
}

func (q *inquiry) chooseRegime(r *Report) {
	reg := &q.regime
	waits := 1 - reg.C.Sec/reg.StepSec
	switch {
	case waits < minWaitShare:
		reg.Kind = ComputeBound
	case len(q.now) < 2:
		r.Missing = append(r.Missing, fmt.Sprintf("a second starved step: the first may be a part of one; ask again after step %d", r.To+1))
	case reg.P == nil || reg.R == nil:
		// Said by what is missing.
	case q.account.full() && q.explains(reg.P):
		reg.Kind, reg.Resource = CapacityBound, EngineSlots
	case !q.account.full() && q.explains(reg.LatencyPD):
		reg.Kind = LatencyBound
	case !q.account.full() && !q.prompt && q.startGap() >= gapShare*reg.StepSec && reg.LatencyPD.Sec < reg.StepSec:
		q.blameWorkers()
	default:
		reg.Kind = MixedRegime
	}
}

func (q *inquiry) explains(term *Quantity) bool {
	return math.Abs(term.Sec/q.regime.StepSec-1) <= closeTo
}

// blameWorkers counts capacity in games: engines have free slots, yet launched groups do not start.
func (q *inquiry) blameWorkers() {
	games := q.ledger.mean(q.now, batchWork(gameWork))
	places := games / q.regime.StepSec // Little's law: games in play
	q.regime.Kind, q.regime.Resource = CapacityBound, WorkerSlots
	q.regime.P = &Quantity{q.regime.StepSec, Measured,
		fmt.Sprintf("%s game-seconds / %s games in play at the workers", units.Number(games), units.Number(places))}
}

// regimeEvidence is what was seen, for the regime and against its rivals.
func (q *inquiry) regimeEvidence() []Evidence {
	lines := []Evidence{}
	say := func(format string, args ...any) {
		lines = append(lines, Evidence{fmt.Sprintf(format, args...), Measured})
	}
	f := q.fleet
	if f.known {
		sampled := ""
		if q.account.share-f.slotShare > 0.05 {
			sampled = fmt.Sprintf(" (%s by the engines' samples, which leave out the way there and back)", units.Percent(f.slotShare))
		}
		say("%s engines, %s of their request slots in use%s, busy %s of the time, %s requests queued",
			units.Number(f.engines), units.Percent(q.account.share), sampled, units.Percent(f.busyShare), units.Number(f.queued))
	}
	if from, to, ok := q.fallingDepth(); ok && q.regime.Kind == CapacityBound {
		say("batches ready at the claim fell from %.1f at step %d to %.1f at step %d", from.ready, from.no, to.ready, to.no)
	}
	if q.regime.Kind == ComputeBound {
		return lines
	}
	if interval, ok := q.arrivalInterval(); ok {
		check := ""
		if q.regime.Kind == CapacityBound && math.Abs(interval/q.regime.P.Sec-1) > disagree {
			check = ", which P does not explain"
		}
		say("a batch's worth of groups arrived every %s%s", units.Seconds(interval), check)
	}
	if q.account.queueing() && q.account.share < queueingSlots {
		say("requests stand in line beside free slots: their adapter is not loaded there, or a limit is lower than told")
	}
	if q.cycle != nil {
		say("step times repeat every %d steps, between %s and %s", q.cycle.Period, units.Seconds(q.cycle.LowSec), units.Seconds(q.cycle.HighSec))
	}
	if gap := q.startGap(); q.regime.Resource == WorkerSlots {
		say("groups stood %s launched and not started, beside free slots", units.Seconds(gap))
	}
	return lines
}

type depthAt struct {
	no    int64
	ready float64
}

// fallingDepth is the drain of a prefill: the first step's ready depth and where it got to the
// bottom. A ready depth that falls evenly from step 0 on is the mark of a run that consumes
// faster than it produces; one that holds and then drops has another reason.
func (q *inquiry) fallingDepth() (from, to depthAt, ok bool) {
	steps := q.ledger.steps
	from = depthAt{int64(steps[0].no), steps[0].view().ReadyDepth}
	to = from
	bottom := 0
	for i := range steps {
		ready := steps[i].view().ReadyDepth
		if ready > to.ready+0.05 { // it rises again
			break
		}
		if ready < to.ready-0.05 {
			to, bottom = depthAt{int64(steps[i].no), ready}, i
		}
	}
	fall := from.ready - to.ready
	middle := steps[bottom/2].view().ReadyDepth
	even := bottom <= 2 || math.Abs(middle-(from.ready+to.ready)/2) <= 0.35*fall
	return from, to, fall >= 0.5 && even
}

// arrivalInterval is the time in which the fleet delivered a batch's worth of groups, from the
// groups' own clocks: a check on P that shares no input with it.
func (q *inquiry) arrivalInterval() (float64, bool) {
	if len(q.now) < 2 {
		return 0, false
	}
	first, ok1 := q.meanArrival(q.now[0])
	last, ok2 := q.meanArrival(q.now[len(q.now)-1])
	steps := q.now[len(q.now)-1] - q.now[0]
	return last.Sub(first).Seconds() / float64(steps), ok1 && ok2 && last.After(first)
}

// meanArrival is the middle of a batch's arrival.
func (q *inquiry) meanArrival(i int) (time.Time, bool) {
	groups := q.ledger.steps[i].view().Groups
	if len(groups) == 0 {
		return time.Time{}, false
	}
	origin, sum := groups[0].Times.ReadyAt, 0.0
	for _, g := range groups {
		if g.Times.ReadyAt.IsZero() {
			return time.Time{}, false
		}
		sum += g.Times.ReadyAt.Sub(origin).Seconds()
	}
	return origin.Add(time.Duration(sum / float64(len(groups)) * float64(time.Second))), true
}
