package diagnosis

// account is how many of the engines' slots are in use, and by whom.
type account struct {
	slots  float64 // that this run may fill: the engines' limits, or its own
	own    float64 // this run's requests in flight, by Little's law: work / step
	flight float64 // all requests in flight
	queued float64
	share  float64 // of the slots in use
}

// takeAccount compares two views of the requests in flight: the engines' samples, and this run's work
// over time, which includes the way to the engine and back. The larger one is what fills the slots.
func (q *inquiry) takeAccount() {
	f := q.fleet
	a := account{slots: f.slots, queued: f.queued}
	if limit := float64(q.in.Spec.Dispatch.MaxInFlightPerEngine); limit > 0 {
		a.slots = min(a.slots, f.engines*limit)
	}
	period := q.regime.StepSec
	if interval, ok := q.arrivalInterval(); ok && !q.starving() {
		period = max(period, interval) // a buffer that drains gives more than the fleet makes
	}
	a.own = q.workPerBatch() / period
	a.flight = max(f.inFlight, a.own)
	if a.slots > 0 {
		a.share = min(1, a.flight/a.slots)
	}
	q.account = a
}

// workPerBatch is the request-seconds that the fleet spends on a batch, dropped groups included.
func (q *inquiry) workPerBatch() float64 {
	return q.ledger.mean(q.now, batchWork(work)) * (1 + q.ledger.dropRate(q.now))
}

// others is the requests in flight that are not this run's; 0 when the account is about even.
func (a account) others() float64 {
	if a.own >= 0.8*a.flight {
		return 0
	}
	return a.flight - a.own
}

// full reports whether the engines have no room for another request.
func (a account) full() bool { return a.share >= fullSlots || a.queueing() }

// queueing reports whether requests stand in line: some beside nearly full slots, or as many as are
// in flight whatever the slots say, because then something else withholds them.
func (a account) queueing() bool {
	return a.share >= queueingSlots && a.queued >= 0.1*a.flight || a.queued > 0 && a.queued >= a.flight
}
