package dispatch

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// pass does what has become due by now.
func (s *Scheduler) pass() {
	s.forgetAdapters()
	for len(s.deadlines) > 0 && !s.now.Before(s.deadlines[0].Deadline) {
		q := s.deadlines[0]
		s.dequeue(q)
		s.reject(q, rollout.CodeDeadline)
	}
	for _, e := range s.engines {
		if len(e.standings) == 0 && e.all.state == closed {
			continue
		}
		s.probeDue(e)
		for _, st := range e.standings {
			for _, m := range st.missing {
				if !m.until.IsZero() && !s.now.Before(m.until) {
					m.until = time.Time{} // the pause is over, its length is kept
					s.revision++
				}
			}
		}
	}
	s.rehome()
	for l := s.stranded(); l != nil; l = s.stranded() {
		for len(l.queue) > 0 {
			q := l.queue[0]
			s.dequeue(q)
			if l.refused != "" {
				s.reject(q, rollout.CodeRefused) // no second engine came to judge it
				continue
			}
			s.reject(q, rollout.CodeNoEngine)
		}
	}
}

// stranded is a lane whose model no engine has served for too long, or nil.
func (s *Scheduler) stranded() *lane {
	for _, r := range s.runs {
		for _, l := range r.lanes {
			if len(s.servers(l)) == 0 && s.now.Sub(l.stranded) >= s.cfg.NoEngineTTL {
				return l
			}
		}
	}
	return nil
}

// wake asks for an event when the next thing is due, if no earlier one is on its way.
func (s *Scheduler) wake() {
	at := s.due()
	if at.IsZero() || s.now.Before(s.woken) && !at.Before(s.woken) {
		return
	}
	s.woken = at
	s.do(Wake{at})
}

// due is when the next thing is due; zero: nothing is.
func (s *Scheduler) due() time.Time {
	var at time.Time
	earliest := func(t time.Time) {
		if t.After(s.now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if len(s.deadlines) > 0 {
		earliest(s.deadlines[0].Deadline)
	}
	for _, e := range s.engines {
		if len(e.standings) == 0 && e.all.state == closed {
			continue
		}
		if e.all.state == open && !e.draining {
			earliest(e.all.probeAt)
		}
		for _, st := range e.standings {
			if st.state == open && e.takes() {
				earliest(st.probeAt)
			}
			if s.queued == 0 {
				continue
			}
			earliest(st.pausedUntil)
			for _, m := range st.missing {
				earliest(m.until)
			}
		}
	}
	for _, r := range s.runs {
		for _, l := range r.lanes {
			if !l.stranded.IsZero() {
				earliest(l.stranded.Add(s.cfg.NoEngineTTL))
			}
		}
	}
	return at
}
