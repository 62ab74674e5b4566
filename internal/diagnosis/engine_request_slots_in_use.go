package diagnosis

import (
	"github.com/millrace/millrace/internal/kit/units"
)

// slotUse is how many of the engines' request slots are in use, and by which runs.
type slotUse struct {
	slots    float64 // that this run may fill: the engines' limits, or its own
	own      float64 // this run's requests in flight, by Little's law: work / step
	inFlight float64 // all requests in flight
	queued   float64
	share    float64 // of the slots in use
	memory   bool    // the engines' memory holds no more
	busy     float64 // share of the time in which engines have anything in flight
}

// slotUseOf compares two views of the requests in flight: the engines' samples, and this run's work over time, which
// includes the way to the engine and back. The larger one counts as the use.
func slotUseOf(m *measurements, stepSec float64, memory bool) slotUse {
	u := slotUse{slots: m.fleet.slots, queued: m.fleet.queued, memory: memory, busy: 1}
	if m.fleet.busyShare > 0 {
		u.busy = min(1, m.fleet.busyShare)
	}
	if limit := float64(m.in.Spec.Dispatch.MaxInFlightPerEngine); limit > 0 {
		u.slots = min(u.slots, m.fleet.engines*limit)
	}
	period := stepSec
	if interval, ok := m.arrivalInterval(); ok && !m.starving() {
		period = max(period, interval) // a buffer that drains gives more than the fleet makes
	}
	u.own = max(m.workPerBatch()/period, m.mean(m.present, (*step).heldAtClaim))
	u.inFlight = max(m.fleet.inFlight, u.own)
	if u.slots > 0 {
		u.share = min(1, u.inFlight/u.slots)
	}
	return u
}

// heldAtClaim is about how many requests the run's own groups in play held when a step was claimed: those that are
// dropped or cancelled later, or still go on, among them.
func (s *step) heldAtClaim() float64 {
	v := s.view()
	held, n := 0.0, 0.0
	for i := range v.Groups {
		g := &v.Groups[i]
		if span := units.SecondsBetween(g.Times.StartedAt, g.Times.ReadyAt); span > 0 {
			held += g.Usage.ExecSec / span
			n++
		}
	}
	return float64(v.AtClaim.InFlight) * held / max(1, n)
}

// others is the requests in flight that are not this run's; 0 when its own are about all of them.
func (u slotUse) others() float64 {
	if u.own >= 0.8*u.inFlight {
		return 0
	}
	return u.inFlight - u.own
}

// mayHold is the requests that this run may have in flight, over all engines; 0: not known.
func (u slotUse) mayHold() float64 {
	slots := u.slots
	if u.queueing() || u.memory {
		slots = min(slots, u.inFlight/u.busy) // as many as are ever used, with requests waiting
	}
	return slots - u.others()
}

const (
	// fullSlots is the share of slots in use from which on the engines are the limit.
	fullSlots = 0.85
	// queueingSlots is the share from which on a standing queue shows that no more fits.
	queueingSlots = 0.70
)

// full reports whether the engines have no room for another request.
func (u slotUse) full() bool { return u.share >= fullSlots || u.queueing() || u.memory }

// queueing reports whether requests stand in line: some beside nearly full slots, or as many as are
// in flight whatever the slots say, because then something else withholds them.
func (u slotUse) queueing() bool {
	return u.share >= queueingSlots && u.queued >= 0.1*u.inFlight || u.queued > 0 && u.queued >= u.inFlight
}
