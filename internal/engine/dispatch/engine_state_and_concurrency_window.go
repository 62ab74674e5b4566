package dispatch

import (
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// engine is the scheduler's state of one engine.
type engine struct {
	id       rollout.EngineID
	limit    int             // as told
	models   map[string]bool // adapters included
	adapters map[string]bool
	slots    int // adapters that fit into a batch; 0: not known
	// Between equal engines the one goes first where other workers have fewer requests, then the one of lower rank.
	elsewhere int
	rank      uint64
	draining  bool

	inFlight []*entry     // in no order
	othersAt time.Time    // when a request of a run that does not go behind was last here
	perRun   map[*run]int // in flight
	load     int64        // expected work in flight, in weighted tokens

	// window is how many of limit are used: cut when the engine itself says that it has too much, widened by good
	// answers.
	window int
	credit int // good answers since the window last changed; negative after a cut

	all       breaker // for every run
	failing   *run    // whose request failed last, with no sign of life since
	several   bool    // more than one run's did
	standings map[*run]*standing
	probed    bool // a probe is under way

	lifeAt    time.Time // the latest sign of life: an answer, a token counter that moved, a canary
	heardLife time.Time // the latest that others saw, by their clock
	askedAt   time.Time // the first request since then was sent; zero: none was

	sample sampleState

	forgotten bool // not one of the scheduler's engines any more
	// lookedAt is the number of the latest look in which the engine had room for a run: see Scheduler.lookForRoom.
	lookedAt uint64
	hasRoom  bool
}

// newEngine makes an engine as a worker sees it.
func newEngine(id rollout.EngineID, worker string, now time.Time) *engine {
	rank := uint64(0)
	if worker != "" {
		rank = rollout.SpreadHash(worker, string(id))
	}
	return &engine{id: id, rank: rank, perRun: map[*run]int{}, standings: map[*run]*standing{}, lifeAt: now}
}

// takes reports whether the engine is dispatched to at all.
func (e *engine) takes() bool { return !e.draining && e.all.passes() }

// serves reports whether a run's requests for a model may go to the engine.
func (e *engine) serves(r *run, model string, now time.Time) bool {
	if !e.takes() || !e.models[model] {
		return false
	}
	st := e.standingOf(r)
	if st == nil {
		return true
	}
	m := st.missing[model]
	return st.passes() && (m == nil || !now.Before(m.until))
}

// onTrial reports whether only one request of the run may try.
func (e *engine) onTrial(st *standing) bool {
	return e.all.state == halfOpen || st != nil && st.state == halfOpen
}

// takesOneMore reports whether the engine takes one more request of r now.
func (e *engine) takesOneMore(r *run, now time.Time) bool {
	if len(e.inFlight) >= e.window {
		return false
	}
	if st := e.standingOf(r); st != nil {
		if now.Before(st.pausedUntil) || st.window > 0 && e.perRun[r] >= st.window || st.trial != nil && e.onTrial(st) {
			return false
		}
	}
	most := r.rules.MaxInFlightPerEngine
	return most <= 0 || e.perRun[r] < most
}

// resize takes a new limit. A window that overload has cut stays cut.
func (e *engine) resize(limit int) {
	limit = max(0, limit)
	if e.window >= e.limit {
		e.window = limit
	}
	e.limit = limit
	e.window = min(e.window, e.limit)
	if e.limit > 0 {
		e.window = max(1, e.window)
	}
}

// holdRounds is for how many windows' worth of good answers a cut window stays as it is: probing for more room at once
// would turn away a request in every round.
const holdRounds = 8

// widen counts a good answer towards a wider window, which is an eighth wider for each window's worth of them.
func (e *engine) widen(now time.Time, cfg *Config) {
	if e.window >= e.limit || e.sample.full(now, cfg) {
		return
	}
	if e.credit++; e.credit >= e.window {
		e.credit = 0
		e.window = min(e.limit, e.window+max(1, e.window/8))
	}
}

// cut makes the window smaller, and keeps it so for a while.
func (e *engine) cut(window int) {
	e.window = min(e.limit, max(1, window))
	e.credit = -holdRounds * e.window
}

// update applies a report about the engine and reports whether its set of models changed.
func (e *engine) update(up *EngineUp) bool {
	changed := e.draining || len(e.models) != len(up.Models)+len(up.Adapters)
	e.draining = false
	for _, m := range up.Models {
		changed = changed || !e.models[m]
	}
	for _, m := range up.Adapters {
		changed = changed || !e.adapters[m]
	}
	if changed {
		e.models, e.adapters = map[string]bool{}, map[string]bool{}
		for _, m := range up.Models {
			e.models[m] = true
		}
		for _, m := range up.Adapters {
			e.models[m], e.adapters[m] = true, true
		}
		e.keepModels()
	}
	if e.slots != up.Slots {
		e.slots, changed = up.Slots, true
	}
	e.elsewhere = up.Elsewhere
	e.resize(up.Limit)
	return changed
}

// add takes a request in.
func (e *engine) add(q *entry) {
	q.place = len(e.inFlight)
	e.inFlight = append(e.inFlight, q)
}

// remove lets go of a request in flight.
func (e *engine) remove(q *entry) {
	last := len(e.inFlight) - 1
	moved := e.inFlight[last]
	e.inFlight[q.place], moved.place = moved, q.place
	e.inFlight[last] = nil
	e.inFlight = e.inFlight[:last]
}

// oldest lists the requests in flight, in order of arrival.
func (e *engine) oldest() []*entry {
	return slices.SortedFunc(slices.Values(e.inFlight), func(a, b *entry) int {
		if a.arrival < b.arrival {
			return -1
		}
		return 1
	})
}

// engineByID finds an engine, or where it belongs.
func (s *Scheduler) engineByID(id rollout.EngineID) (int, bool) {
	return slices.BinarySearchFunc(s.engines, id, func(e *engine, id rollout.EngineID) int {
		return strings.Compare(string(e.id), string(id))
	})
}

// find is the engine with an id, or nil.
func (s *Scheduler) find(id rollout.EngineID) *engine {
	if i, ok := s.engineByID(id); ok {
		return s.engines[i]
	}
	return nil
}
