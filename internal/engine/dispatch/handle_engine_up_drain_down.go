package dispatch

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

func (s *Scheduler) engineUp(ev *EngineUp) {
	i, ok := s.engineByID(ev.ID)
	if !ok {
		s.engines = slices.Insert(s.engines, i, newEngine(ev.ID, s.cfg.Worker, s.now))
	}
	if s.engines[i].update(ev) || !ok {
		s.revision++
	}
}

func (s *Scheduler) engineDrain(id rollout.EngineID) {
	e := s.find(id)
	if e == nil || e.draining {
		return
	}
	e.draining = true
	s.revision++
	if len(e.inFlight) == 0 {
		s.forget(e)
	}
}

func (s *Scheduler) engineDown(id rollout.EngineID) {
	e := s.find(id)
	if e == nil {
		return
	}
	e.draining = true // closed to what is queued again
	s.abandon(e)
	s.forget(e)
}

// abandon takes everything in flight off an engine and queues it again.
func (s *Scheduler) abandon(e *engine) {
	for _, q := range e.oldest() {
		s.do(Abandon{q.ID, e.id, q.tries})
		s.recall(q)
		s.again(q, e)
	}
}

func (s *Scheduler) forget(e *engine) {
	if i, ok := s.engineByID(e.id); ok && s.engines[i] == e {
		s.restore(e, nil, &e.all)
		for _, r := range s.runs { // in order, so that the same events bring the same commands
			if st := e.standingOf(r); st != nil {
				s.restore(e, r, &st.breaker)
			}
		}
		s.engines = slices.Delete(s.engines, i, i+1)
		e.forgotten = true
		s.revision++
	}
}
