package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// pick is a request, and the engine that it is to go to.
type pick struct {
	lane  *lane
	to    *engine
	first *entry // of the lane: its head, or the one that goes before it
}

// next picks what of r goes now: the oldest head of a lane that an engine has room for.
func (s *Scheduler) next(r *run) (pick, bool) {
	var oldest pick
	for _, l := range r.lanes {
		if oldest.lane != nil && !l.queue[0].before(oldest.lane.queue[0]) {
			continue
		}
		servers := s.servers(l)
		if r.rules.Behind {
			servers = s.capacityBehind(l, servers)
		}
		if !s.lookForRoom(r, servers) {
			continue // homes do not matter here
		}
		q := s.atHome(l, servers)
		if e := s.choose(q, servers); e != nil {
			oldest = pick{l, e, q}
		}
	}
	return oldest, oldest.lane != nil
}

// lookForRoom marks the engines that can take one more request of a run, and reports whether there are any.
func (s *Scheduler) lookForRoom(r *run, servers []*engine) bool {
	s.looks++
	found := false
	for _, e := range servers {
		e.lookedAt, e.hasRoom = s.looks, e.takesOneMore(r, s.now)
		found = found || e.hasRoom
	}
	return found
}

// peeked is how many requests behind the head of a lane are searched for one whose home has room.
const peeked = 64

// atHome is the request of a lane that goes next: the head, unless the engine with its game's prefix is full. Then the
// place goes to the oldest following request that loses nothing by it, because its home has room or its game has not
// begun. The head is passed over a bounded number of times: about as often as it takes for each engine to have had a
// free place.
func (s *Scheduler) atHome(l *lane, servers []*engine) *entry {
	head := l.queue[0]
	if len(servers) < 2 || !s.homeIsFull(head) || head.passed >= head.run.slack(&s.cfg)*len(servers) {
		return head
	}
	var oldest *entry
	for _, q := range l.queue[1:min(len(l.queue), peeked)] {
		if (oldest == nil || q.before(oldest)) && !s.homeIsFull(q) {
			oldest = q
		}
	}
	return cmp.Or(oldest, head)
}

// homeIsFull reports whether a request's game is at home on an engine that has no room now: one of those of the last
// look for room.
func (s *Scheduler) homeIsFull(q *entry) bool {
	if q.run.rules.Policy == runspec.RoundRobin {
		return false
	}
	e := s.home(q)
	return e != nil && e.lookedAt == s.looks && !e.hasRoom
}

// choose picks the engine for a request by its run's policy; nil if none has room.
func (s *Scheduler) choose(q *entry, servers []*engine) *engine {
	if q.run.rules.Policy == runspec.RoundRobin {
		return s.roundRobin(q.run, servers)
	}
	return s.leastTokens(q, servers)
}

// roundRobin is the first engine with room behind the run's last one, in order of ids.
func (s *Scheduler) roundRobin(r *run, servers []*engine) *engine {
	var first *engine
	for _, e := range servers {
		if !e.takesOneMore(r, s.now) {
			continue
		}
		if e.id > r.last {
			return e
		}
		if first == nil {
			first = e
		}
	}
	return first
}

// leastTokens is the engine with room that has the least expected work in flight; among equals, the one with fewer
// requests. The engine that holds the game's prefix is preferred, and after it those that the adapter keeps to,
// until they have too much more than that: affinity is a filter with a break-off, for a cached prefix is worth less
// than an idle engine.
func (s *Scheduler) leastTokens(q *entry, servers []*engine) *engine {
	var least, placed, home *engine
	places := s.places(q)
	at := s.home(q)
	for _, e := range servers {
		if !e.takesOneMore(q.run, s.now) {
			continue
		}
		if lighter(e, least) {
			least = e
		}
		if places != nil && !slices.Contains(places, e.id) {
			continue
		}
		if e == at {
			home = e
		}
		if places != nil && lighter(e, placed) {
			placed = e
		}
	}
	if least == nil {
		return nil
	}
	most := least.load + int64(q.run.slack(&s.cfg))*q.run.cost(&q.Request)
	for _, preferred := range []*engine{home, placed} {
		if preferred != nil && preferred.load <= most {
			return preferred
		}
	}
	return least
}

// lighter reports whether an engine has less to do than another, which may be nil. Other workers' load arrives a moment
// late, and at all workers alike, so it decides only between engines that are equal here. Engines that are equal there,
// too, each worker takes in an order of its own, so that idle workers do not all choose the same one.
func lighter(e, than *engine) bool {
	if than == nil {
		return true
	}
	return cmp.Or(cmp.Compare(e.load, than.load), cmp.Compare(len(e.inFlight), len(than.inFlight)),
		cmp.Compare(e.elsewhere, than.elsewhere), cmp.Compare(e.rank, than.rank)) < 0
}

// servers is the engines that may serve a lane's requests, room or not.
func (s *Scheduler) servers(l *lane) []*engine {
	if l.revision == s.revision {
		return l.servers
	}
	l.revision = s.revision
	l.servers = l.servers[:0]
	var avoided *engine
	for _, e := range s.engines {
		switch {
		case !e.serves(l.run, l.model, s.now), l.home != "" && e.id != l.home, e.id == l.refused:
		case e.id == l.avoid:
			avoided = e
		default:
			l.servers = append(l.servers, e)
		}
	}
	if len(l.servers) == 0 && avoided != nil {
		l.servers = append(l.servers, avoided)
	}
	switch {
	case len(l.servers) > 0:
		l.stranded = time.Time{}
	case l.stranded.IsZero():
		l.stranded = s.now
	}
	return l.servers
}
