package dispatch

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// entry is a request held by the scheduler: in a lane of its run, or in flight on an engine.
type entry struct {
	Request
	run     *run
	arrival uint64 // order of submission; a request queued again keeps it, and so its place
	since   time.Time

	// rank and behind are the run's order, fixed when the request is queued: lower first.
	rank   int64
	behind int

	lane  *lane // while queued
	index int   // in lane.queue
	due   int   // in Scheduler.deadlines, while queued; -1 without a deadline
	avoid rollout.EngineID
	// refusedBy found fault with the request, and is not asked again.
	refusedBy rollout.EngineID
	missing   time.Time // since when engines denied having the model; zero: they did not

	engine   *engine // while in flight
	sentAt   time.Time
	cost     int64 // credited to engine and run at dispatch
	tries    int
	failures int
	passed   int // how often a younger request went first, to its home
	place    int // in engine.inFlight

	game     memo[home] // of Scheduler.games
	answered memo[int]  // of Scheduler.answers
}

// before reports whether a request goes before another one of its run.
func (e *entry) before(o *entry) bool {
	switch {
	case e.rank != o.rank:
		return e.rank < o.rank
	case e.behind != o.behind:
		return e.behind < o.behind
	}
	return e.arrival < o.arrival
}

// rankIt places a request in its run's order.
func (s *Scheduler) rankIt(e *entry) {
	e.rank, e.behind = 0, 0
	switch e.run.rules.Order {
	case runspec.ArrivalOrder:
	case runspec.ShortestFirst:
		// Every request grows older at the same pace, so its age at arrival decides for good: nothing is sorted again.
		arrived := e.since.Sub(s.began).Seconds()
		e.rank = e.run.cost(&e.Request)*rankScale + int64(arrived*e.run.rules.Ageing*rankScale)
	default:
		e.rank = int64(e.Episode.Seq)
		if n := s.answers.recall(e.Episode, &e.answered); n != nil {
			e.behind = n.value
		}
	}
}

// rankScale is the resolution of ranks in tokens.
const rankScale = 1000

// laneKey is the common property of a lane's requests.
type laneKey struct {
	model string
	avoid rollout.EngineID // failed these requests last; shunned while another engine serves the model
	home  rollout.EngineID // where they wait, in a queue per engine; "": anywhere
	// refused is the engine that found fault with these requests. They wait for another.
	refused rollout.EngineID
}

// lane is the queued requests of a run that the same engines may serve. A head that cannot be sent holds up only
// requests that cannot be sent either.
type lane struct {
	laneKey
	run   *run
	queue laneQueue

	servers  []*engine // open engines that serve the model, by id; valid in revision
	revision uint64
	stranded time.Time // since when no engine serves it; zero: one does
}

// laneQueue is a heap of entries, oldest group first. It implements heap.Interface.
type laneQueue []*entry

func (q laneQueue) Len() int           { return len(q) }
func (q laneQueue) Less(i, j int) bool { return q[i].before(q[j]) }
func (q laneQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *laneQueue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

func (q *laneQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}

// deadlineQueue is a heap of queued entries that have a deadline, earliest first. It implements heap.Interface.
type deadlineQueue []*entry

func (q deadlineQueue) Len() int { return len(q) }
func (q deadlineQueue) Less(i, j int) bool {
	if c := q[i].Deadline.Compare(q[j].Deadline); c != 0 {
		return c < 0
	}
	return q[i].arrival < q[j].arrival
}

func (q deadlineQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].due, q[j].due = i, j
}

func (q *deadlineQueue) Push(x any) {
	e := x.(*entry)
	e.due = len(*q)
	*q = append(*q, e)
}

func (q *deadlineQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}

// enqueue puts a held request that is not in flight into its lane.
func (s *Scheduler) enqueue(e *entry) {
	s.rankIt(e)
	s.intoLane(e)
	e.due = -1
	if !e.Deadline.IsZero() {
		heap.Push(&s.deadlines, e)
	}
	if e.run.queued == 0 {
		e.run.service = max(e.run.service, s.level)
	}
	e.run.queued++
	s.queued++
}

// dequeue takes a request out of its lane.
func (s *Scheduler) dequeue(e *entry) {
	if e.due >= 0 {
		heap.Remove(&s.deadlines, e.due)
	}
	e.outOfLane()
	e.run.queued--
	s.queued--
}

func (s *Scheduler) intoLane(e *entry) {
	key := laneKey{model: e.Model, avoid: e.avoid, refused: e.refusedBy}
	if e.run.rules.Queue == runspec.EngineQueue {
		key.home = s.assign(e)
	}
	e.lane = e.run.lane(key)
	heap.Push(&e.lane.queue, e)
}

func (e *entry) outOfLane() {
	heap.Remove(&e.lane.queue, e.index)
	if len(e.lane.queue) == 0 {
		e.run.dropLane(e.lane)
	}
	e.lane = nil
}

// assign is the engine in whose queue a request is to wait: by the run's policy, whether it has room or not; "" if none
// serves the model.
func (s *Scheduler) assign(e *entry) rollout.EngineID {
	var chosen, first *engine
	least := 0
	for _, c := range s.engines {
		switch {
		case !c.serves(e.run, e.Model, s.now), c.id == e.refusedBy, c.id == e.avoid && s.another(e):
			continue
		case e.run.rules.Policy == runspec.RoundRobin:
			if first == nil {
				first = c
			}
			if chosen == nil && c.id > e.run.lastHome {
				chosen = c
			}
		default:
			if n := len(c.inFlight) + s.waitingFor(c.id); chosen == nil || n < least {
				chosen, least = c, n
			}
		}
	}
	if chosen = cmp.Or(chosen, first); chosen == nil {
		return ""
	}
	e.run.lastHome = chosen.id
	return chosen.id
}

// another reports whether an engine other than the one to avoid serves the request's model.
func (s *Scheduler) another(e *entry) bool {
	return slices.ContainsFunc(s.engines, func(c *engine) bool {
		return c.id != e.avoid && c.serves(e.run, e.Model, s.now)
	})
}

// waitingFor is how many requests wait in the queue of one engine.
func (s *Scheduler) waitingFor(id rollout.EngineID) int {
	n := 0
	for _, r := range s.runs {
		for _, l := range r.lanes {
			if l.home == id {
				n += len(l.queue)
			}
		}
	}
	return n
}

// rehome moves the requests that wait for an engine that no longer serves them, or for any at all, to those that do.
func (s *Scheduler) rehome() {
	if s.homedAt == s.revision {
		return
	}
	s.homedAt = s.revision
	for _, r := range s.runs {
		if r.rules.Queue != runspec.EngineQueue {
			continue
		}
		for _, l := range slices.Clone(r.lanes) {
			if at := s.find(l.home); at == nil || !at.serves(l.run, l.model, s.now) {
				s.relane(l)
			}
		}
	}
}

// relane moves every request of a lane to the lane where it belongs now.
func (s *Scheduler) relane(l *lane) {
	waiting := slices.SortedFunc(slices.Values(l.queue), func(a, b *entry) int {
		return cmp.Compare(a.arrival, b.arrival)
	})
	stranded := l.stranded
	for _, e := range waiting {
		e.outOfLane()
		s.rankIt(e)
		s.intoLane(e)
		if e.lane.home == "" && e.lane.stranded.IsZero() {
			e.lane.stranded = stranded
		}
	}
}
