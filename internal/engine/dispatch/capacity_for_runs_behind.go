package dispatch

import (
	"cmp"
	"time"
)

// What a run that goes behind may use. Beside the requests of others, its work is so small a part of theirs that it
// slows them by less than 2 % where engines are what limits them (see package serving of the simulator): a prompt that
// no cache holds costs more than it weighs here. An engine that others have left for a while it may use in part. A part
// of the places stays free, where a request of another run goes at once.
const (
	besideOthers = 160             // a part of others' work
	alone        = 4               // a part of the window, where no other run's requests are
	aloneAfter   = 2 * time.Second // since the last of them was there
	keptFree     = 4               // a part of the window
)

// roomBehind reports whether the engine has a place for one more request that goes behind.
func (s *Scheduler) roomBehind(e *engine) bool {
	free := min(e.window-1, (e.window+keptFree-1)/keptFree)
	if len(e.inFlight) >= e.window-free || e.sample.tight > 0 || e.sample.memory >= softMemory {
		return false
	}
	if s.leftByOthers(e) {
		return len(e.inFlight) < max(1, e.window/alone)
	}
	return s.owedBehind == 0
}

// leftByOthers reports whether all that an engine has goes behind, and has for a while.
func (s *Scheduler) leftByOthers(e *engine) bool {
	behind := 0
	for r, n := range e.perRun {
		if r.rules.Behind {
			behind += n
		}
	}
	return behind == len(e.inFlight) && e.elsewhere == 0 &&
		(e.othersAt.IsZero() || s.now.Sub(e.othersAt) >= aloneAfter)
}

// account notes what a request that is sent means for those that go behind: others' work pays for theirs.
func (s *Scheduler) account(q *entry, e *engine) {
	if !q.run.rules.Behind {
		s.owedBehind = max(0, s.owedBehind-q.cost)
		e.othersAt = s.now
	} else if !s.leftByOthers(e) {
		s.owedBehind += besideOthers * q.cost
	}
}

// capacityBehind is the engines that have room for a request that goes behind, and could have its adapter in their
// batch beside those of the requests that they have and of all that other runs have queued.
func (s *Scheduler) capacityBehind(l *lane, servers []*engine) []*engine {
	var able []*engine
	for _, e := range servers {
		slots := cmp.Or(l.run.rules.AdapterSlots, e.slots)
		fits := slots == 0 || !e.adapters[l.model] || len(s.adaptersBeside(e, l.model)) <= slots
		if fits && s.roomBehind(e) {
			able = append(able, e)
		}
	}
	return able
}

// adaptersBeside is the adapters that an engine needs, with one more.
func (s *Scheduler) adaptersBeside(e *engine, more string) map[string]bool {
	used := map[string]bool{more: true}
	for _, q := range e.inFlight {
		if e.adapters[q.Model] {
			used[q.Model] = true
		}
	}
	for _, r := range s.runs {
		for _, l := range r.lanes {
			if !r.rules.Behind && e.adapters[l.model] {
				used[l.model] = true
			}
		}
	}
	return used
}
