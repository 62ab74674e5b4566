package dispatch

import (
	"github.com/millrace/millrace/internal/rollout"
)

// evictFor makes room in a full queue for a request of run r by evicting one of a run that holds more than r would
// then. So a run below its part of the queue is never turned away.
func (s *Scheduler) evictFor(r *run) bool {
	most := r
	for _, o := range s.runs {
		if o.queued > most.queued {
			most = o
		}
	}
	if most.queued <= r.queued+1 {
		return false
	}
	q := s.last(most)
	s.dequeue(q)
	s.reject(q, rollout.CodeQueueFull)
	return true
}

// last is a request of the run that would be served late, if ever: one of a lane that no engine serves, or else of the
// longest lane.
func (s *Scheduler) last(r *run) *entry {
	var longest *lane
	for _, l := range r.lanes {
		switch {
		case longest == nil:
			longest = l
		case (len(s.servers(l)) == 0) != (len(s.servers(longest)) == 0):
			if len(s.servers(l)) == 0 {
				longest = l
			}
		case len(l.queue) > len(longest.queue):
			longest = l
		}
	}
	return longest.queue[len(longest.queue)-1]
}
