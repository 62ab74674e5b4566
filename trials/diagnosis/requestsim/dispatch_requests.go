package requestsim

import (
	"container/heap"
	"math"
)

// submit puts a request into the dispatcher's queue.
func (s *sim) submit(r *request) {
	s.requests++
	r.no = s.requests
	s.accountQueue()
	heap.Push(&s.queue, r)
}

// dispatch gives requests to engines, oldest group first, each to the engine with the most room.
func (s *sim) dispatch() {
	s.accountQueue()
	for len(s.queue) > 0 {
		r := s.queue[0]
		if r.over { // cancelled while it waited
			heap.Pop(&s.queue)
			continue
		}
		best, most := (*engine)(nil), 0.0
		for _, e := range s.engines {
			room := e.room()
			if r.game == nil {
				room = e.roomForOthers()
			}
			if share := float64(room) / float64(max(1, e.limit)); room > 0 && share > most {
				best, most = e, share
			}
		}
		if best == nil {
			return
		}
		heap.Pop(&s.queue)
		if g := r.game; g != nil {
			if g.group.started < 0 {
				g.group.started = s.now
			}
			if g.begun < 0 {
				g.begun = s.now
			}
		}
		best.take(r)
	}
}

// othersAsk keeps as many requests of other runs in flight as there are to be.
func (s *sim) othersAsk() {
	held := 0
	for _, e := range s.engines {
		held += e.others
	}
	for _, r := range s.queue {
		if r.game == nil {
			held++
		}
	}
	for ; held < s.w.OthersHold; held++ {
		e := s.w.Engine
		output := s.w.OtherSec / (e.OutputSec + 2*e.PromptSec) * s.spread("others", 0.3)
		s.submit(&request{age: -1, prompt: math.Ceil(2 * output), output: math.Ceil(output), submitted: s.now})
	}
}

func (s *sim) accountQueue() {
	s.queuedSec += float64(len(s.queue)) * (s.now - s.queuedAt)
	s.queuedAt = s.now
}

type byAge []*request

func (h byAge) Len() int { return len(h) }

func (h byAge) Less(i, j int) bool {
	if h[i].age != h[j].age {
		return h[i].age < h[j].age
	}
	return h[i].no < h[j].no
}

func (h byAge) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *byAge) Push(x any) { *h = append(*h, x.(*request)) }

func (h *byAge) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
