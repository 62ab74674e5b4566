package batch

import (
	"math"
	"slices"
	"time"
)

// Advance computes everything up to time now and reports it in order of time. The slice is
// valid until the next call.
func (s *Scheduler) Advance(now time.Duration) []Event {
	s.catchUp(now)
	s.events, s.spareEvents = s.spareEvents[:0], s.events
	return s.spareEvents
}

// catchUp completes the steps that have ended by now and plans the one in progress.
func (s *Scheduler) catchUp(now time.Duration) {
	for !s.idle() {
		n := s.cur.completed(now)
		if n == s.cur.done {
			return
		}
		s.complete(n)
		if s.idle() {
			s.plan(s.cur.boundary(s.cur.done))
		}
	}
}

// Next is when Advance will next have something to report; ok is false while the engine is idle.
// Submitting, aborting and loading may bring it forward.
func (s *Scheduler) Next() (at time.Duration, ok bool) {
	if s.idle() {
		return 0, false
	}
	return s.cur.boundary(s.cur.steps), true
}

// complete ends the steps of the current span up to the n-th.
func (s *Scheduler) complete(n int) {
	steps, at := n-s.cur.done, s.cur.boundary(n)
	s.totals.Busy += at - s.cur.boundary(s.cur.done)
	s.cur.done = n
	if s.cur.load {
		for _, l := range s.loads {
			s.events = append(s.events, Event{Kind: Loaded, ID: l.id, At: at})
		}
		s.loads = s.loads[:0]
		return
	}
	s.totals.Steps += int64(steps)
	s.running = slices.DeleteFunc(s.running, func(q *sequence) bool { return s.progress(q, steps, at) })
}

// progress moves a sequence on by some steps, of which prefill has one only, and reports whether
// it has finished.
func (s *Scheduler) progress(q *sequence, steps int, at time.Duration) bool {
	if !q.decodes() {
		q.computed += q.chunk
		if !q.decodes() {
			return false
		}
		q.generated = 1
		s.totals.PromptTokens += int64(q.Prompt)
		s.totals.CachedTokens += int64(q.cached)
		s.totals.GenerationTokens++
		s.events = append(s.events, Event{Kind: FirstToken, ID: q.ID, At: at})
	} else {
		q.generated += steps
		s.totals.GenerationTokens += int64(steps)
	}
	if q.generated < q.Output {
		return false
	}
	s.events = append(s.events, Event{Kind: Finished, ID: q.ID, At: at, Cached: q.cached})
	s.totals.Finished++
	s.release(q)
	s.remember(q, math.MaxInt)
	s.spare = append(s.spare, q)
	return true
}

// plan decides the steps that begin at time now.
func (s *Scheduler) plan(now time.Duration) {
	s.cur = span{start: now}
	if s.paused && len(s.loads) == 0 {
		return
	}
	if len(s.loads) > 0 {
		s.planLoads()
		return
	}
	work := s.planDecode()
	s.planPrefill(&work)
	swaps := s.admit(&work, now)
	if len(s.running) == 0 {
		return
	}
	s.cur.first = s.scaled(s.cost.Duration(work) + swaps)
	s.cur.steps = 1
	if work.Prefill == 0 {
		s.cur.growth = s.cost.growth(work) * s.slow
		s.cur.steps = s.identicalSteps()
	}
}

func (s *Scheduler) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.slow)
}

func (s *Scheduler) planLoads() {
	s.cur.load = true
	s.cur.steps = 1
	for _, l := range s.loads {
		s.cur.first += s.scaled(s.adapters.use(l.adapter, s.cost))
	}
}

// planDecode gives every sequence past its prefill one token.
func (s *Scheduler) planDecode() Work {
	var w Work
	for _, q := range s.running {
		if q.decodes() {
			w.Decoding++
			w.KV += q.context()
		}
		w.UseAdapter = w.UseAdapter || q.Adapter != ""
	}
	return w
}

// planPrefill lets running prefills go on as far as the budget reaches.
func (s *Scheduler) planPrefill(w *Work) {
	for _, q := range s.running {
		if !q.decodes() {
			s.takeChunk(q, w)
		}
	}
}

// takeChunk gives a prefill what is left of the step's budget.
func (s *Scheduler) takeChunk(q *sequence, w *Work) {
	q.chunk = max(0, min(q.Prompt-q.computed, s.limits.Tokens-w.Tokens()))
	w.add(q.chunk, q.computed+q.chunk)
}

// admit starts waiting requests in order. One that lacks an adapter slot is passed over; one
// that lacks memory holds back those behind it. It tells how long fetching adapters takes.
func (s *Scheduler) admit(w *Work, now time.Duration) time.Duration {
	var swaps time.Duration
	kept := s.waiting[:0]
	for i, q := range s.waiting {
		if len(s.running) >= s.limits.Sequences || w.Tokens() >= s.limits.Tokens ||
			s.reserved+q.Prompt+q.Output > s.limits.KV {
			kept = append(kept, s.waiting[i:]...)
			break
		}
		if !s.adapters.admits(q.Adapter) {
			kept = append(kept, q)
			continue
		}
		swaps += s.start(q, w, now)
	}
	clear(s.waiting[len(kept):])
	s.waiting = kept
	return swaps
}

// start makes a request run, from the first block of its prompt that is not cached.
func (s *Scheduler) start(q *sequence, w *Work, now time.Duration) time.Duration {
	s.reserve(q, 1)
	s.adapters.enter(q.Adapter)
	swap := s.adapters.use(q.Adapter, s.cost)
	s.lookUp(q)
	q.computed = q.cached
	s.takeChunk(q, w)
	w.UseAdapter = w.UseAdapter || q.Adapter != ""
	s.running = append(s.running, q)
	s.events = append(s.events, Event{Kind: Admitted, ID: q.ID, At: now, Cached: q.cached})
	return swap
}

// lookUp finds the cached prefix. The last prompt token is always computed, for its logits. The
// prompt's own blocks count as cached from now on: later requests of the same step share them.
func (s *Scheduler) lookUp(q *sequence) {
	if s.limits.NoPrefix {
		return
	}
	block := s.limits.Block
	q.at = s.prefix.find(q.Prefix, q.at)
	q.cached = s.prefix.hits(q.Prefix, q.at, (q.Prompt-1)/block) * block
	s.totals.PrefixQueries += int64(q.Prompt)
	s.totals.PrefixHits += int64(q.cached)
	s.remember(q, q.Prompt/block)
}

// remember keeps the first most blocks of a sequence's prefix, as far as there is room.
func (s *Scheduler) remember(q *sequence, most int) {
	if !s.limits.NoPrefix {
		s.prefix.touch(q.Prefix, q.at, most)
		s.prefix.shrink((s.limits.KV - s.private) / s.limits.Block)
	}
}

// identicalSteps is for how many steps the running sequences stay the same ones.
func (s *Scheduler) identicalSteps() int {
	steps := 1 << 30
	for _, q := range s.running {
		steps = min(steps, q.Output-q.generated)
	}
	return steps
}
