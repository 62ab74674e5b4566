package staticbatch

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// engine is what the scheduler keeps of one engine.
type engine struct {
	number   int
	limit    int // requests in flight
	models   []string
	inFlight int
	batches  int // in flight
	load     int // expected work in flight, in weighted tokens
}

// AddEngine adds the engine of the next number.
func (s *Scheduler) AddEngine(limit int, models []string) {
	s.engines = append(s.engines, &engine{number: len(s.engines), limit: limit, models: models})
}

// choose is the engine with room for a batch of a lane: in turn, or the one with the least to do. Nil: none has room.
func (s *Scheduler) choose(l *lane) *engine {
	var first, least *engine
	for _, e := range s.engines {
		if l.home != nil && e != l.home || !slices.Contains(e.models, l.model) || e.inFlight >= e.limit ||
			e.batches >= s.rules.PerEngine() {
			continue
		}
		if s.dispatch.Policy == runspec.RoundRobin && e.number > s.lastSent {
			return e
		}
		first = cmp.Or(first, e)
		if least == nil || cmp.Or(cmp.Compare(e.load, least.load), cmp.Compare(e.inFlight, least.inFlight)) < 0 {
			least = e
		}
	}
	if s.dispatch.Policy == runspec.RoundRobin {
		return first
	}
	return least
}

// assign is the engine in whose queue a request is to wait, whether it has room or not; nil if none serves the model.
func (s *Scheduler) assign(model string) *engine {
	var chosen, first *engine
	least := 0
	for _, e := range s.engines {
		switch {
		case !slices.Contains(e.models, model):
		case s.dispatch.Policy == runspec.RoundRobin:
			first = cmp.Or(first, e)
			if chosen == nil && e.number > s.lastHome {
				chosen = e
			}
		default:
			if n := e.inFlight + s.waitingFor(e); chosen == nil || n < least {
				chosen, least = e, n
			}
		}
	}
	if chosen = cmp.Or(chosen, first); chosen != nil {
		s.lastHome = chosen.number
	}
	return chosen
}

// waitingFor is how many requests wait in the queue of one engine.
func (s *Scheduler) waitingFor(e *engine) int {
	n := 0
	for _, l := range s.lanes {
		if l.home == e {
			n += len(l.queue)
		}
	}
	return n
}
