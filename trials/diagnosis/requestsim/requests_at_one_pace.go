package requestsim

import "container/heap"

// share is requests that are worked on at the same pace. Work is reckoned in the time of a request that never shares.
type share struct {
	engine   *engine
	slowdown func(n int) float64
	done     func(*request)
	work     float64 // that each request has had since the beginning
	at       float64 // when it had
	pace     float64 // work that each gets per second, since then
	requests byWork
	planned  int
	// tokens per work, of all requests together
	input, cached, output float64
	held                  float64 // tokens in the cache, but for those generated since the beginning
}

// tokens is how many are in the cache.
func (s *share) tokens() float64 { return s.held + (s.work+(s.engine.sim.now-s.at)*s.pace)*s.output }

// count adds what a request gives for its work, or takes it away.
func (s *share) count(r *request, sign float64) {
	if r.work <= 0 {
		return
	}
	split, prompts := s.engine.sim.w.Engine.Split, s == &s.engine.prompts
	if (prompts || !split) && !r.again {
		s.input, s.cached = s.input+sign*r.prompt/r.work, s.cached+sign*r.cached/r.work
	}
	if !prompts {
		rate := (r.output - r.done) / r.work
		s.output += sign * rate
		s.held += sign * (r.prompt + r.done - (r.until-r.work)*rate)
	}
}

func (s *share) len() int { return len(s.requests) }

// paceNow is how much work a request gets per second from now on.
func (s *share) paceNow() float64 {
	e := s.engine
	if e.stalled > 0 || len(s.requests) == 0 {
		return 0
	}
	return 1 / (s.slowdown(len(s.requests)) * e.slow * e.sim.fleetNoise)
}

// catchUp gives the requests their work up to now.
func (s *share) catchUp() {
	s.work += (s.engine.sim.now - s.at) * s.pace
	s.at = s.engine.sim.now
}

func (s *share) add(r *request, work float64) {
	s.catchUp()
	r.until, r.work = s.work+work, work
	s.count(r, 1)
	heap.Push(&s.requests, r)
	s.plan()
}

func (s *share) remove(r *request) {
	if r.place < 0 || r.place >= len(s.requests) || s.requests[r.place] != r {
		return
	}
	s.catchUp()
	s.count(r, -1)
	heap.Remove(&s.requests, r.place)
	s.plan()
}

func (s *share) clear() {
	s.catchUp()
	s.requests, s.input, s.cached, s.output, s.held = nil, 0, 0, 0, 0
	s.plan()
}

// plan works out when the next request is done.
func (s *share) plan() {
	s.catchUp()
	s.pace = s.paceNow()
	s.planned++
	if s.pace == 0 {
		return
	}
	mine := s.planned
	next := max(0, s.requests[0].until-s.work) / s.pace
	if m := &s.engine.sim.w.Engine; m.Preempts && len(s.requests) > 1 && s.output > 0 {
		if full := max(0, m.KV-s.tokens()) / (s.pace * s.output); full < next {
			s.engine.sim.after(full, func() {
				if mine == s.planned {
					s.catchUp()
					s.engine.preempt()
				}
			})
			return
		}
	}
	s.engine.sim.after(next, func() {
		if mine != s.planned {
			return
		}
		s.engine.account()
		s.catchUp()
		r := heap.Pop(&s.requests).(*request)
		s.count(r, -1)
		s.plan()
		s.done(r)
	})
}

type byWork []*request

func (h byWork) Len() int { return len(h) }

func (h byWork) Less(i, j int) bool { return h[i].until < h[j].until }

func (h byWork) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *byWork) Push(x any) {
	r := x.(*request)
	r.place = len(*h)
	*h = append(*h, r)
}

func (h *byWork) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	last.place = -1
	return last
}
