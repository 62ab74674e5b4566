// Package staticbatch decides which requests share a batch, and which engine it goes to, for engines that batch
// statically. The service has no such engines (vLLM batches by itself); the experiments on batching play the policy.
//
// A batch is of one bin of lengths (length_bins.go), as large as memory and the latency per token allow
// (choose_batch_size.go), and, while an engine is idle, no later than a flush window after the oldest request came.
// Scheduler is a pure state machine like the service's own: it starts nothing, reads no clock and draws no chance.
package staticbatch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// overflow is the accepted probability that a batch needs more than the memory that there is.
const overflow = 0.05

// Request is what the scheduler is told of a request.
type Request struct {
	Number int
	Model  string
	// Prompt and Output are the expected tokens. 0: unknown; the mean of recent answers stands in.
	Prompt, Output int
	Class          uint64 // only requests of one class and model share a batch
}

// Batch is requests that go to an engine in one call.
type Batch struct {
	Engine   int
	Requests []int // by number
}

// Scheduler holds requests and decides in which batches they go where.
type Scheduler struct {
	rules    Rules
	dispatch runspec.Dispatch
	theta    float64 // standard deviations between the mean size of a batch and what memory has room for
	engines  []*engine
	lanes    []*lane // those with requests queued
	arrivals uint64

	bins   []bin
	last   int   // bin served last
	recent []int // lengths expected of recent requests, for bins of equal mass
	seen   int
	ends   []int // where bins end; one fewer than there are bins, or none as long as too little is known

	inFlight map[int]*entry
	lastSent int // engine, for round robin; -1: none yet
	lastHome int // in whose queue a request was put last; -1: none yet
	guess    guess
}

// New is a scheduler without engines. Of the dispatch rules it goes by the policy, the queue, and the order
// with its ageing, where another one than shortest first is that of arrival.
func New(rules Rules, dispatch runspec.Dispatch) *Scheduler {
	return &Scheduler{
		rules: rules, dispatch: dispatch, theta: math.Sqrt2 * math.Erfinv(1-2*overflow),
		bins: make([]bin, max(1, rules.Bins)), ends: rules.Boundaries, inFlight: map[int]*entry{},
		lastSent: -1, lastHome: -1, guess: firstGuess,
	}
}

// entry is a request that is held: in a lane, or in flight.
type entry struct {
	Request
	rank    float64 // in the run's order: lower first
	arrival uint64
	since   time.Duration
	cost    int // charged to the engine
	batch   *batch
}

// compare is negative if a request goes before another one.
func (e *entry) compare(o *entry) int {
	return cmp.Or(cmp.Compare(e.rank, o.rank), cmp.Compare(e.arrival, o.arrival))
}

// batch is requests that travel in one call.
type batch struct {
	to      *engine
	bin     int
	left    int // not ended yet
	sentAt  time.Duration
	tokens  []int // of each request, prompt and answer
	longest int   // output tokens
}

// lane is the queued requests that may share a batch, in their order.
type lane struct {
	laneKey
	queue []*entry
}

// oldest is when the request that has waited longest was submitted.
func (l *lane) oldest() time.Duration {
	at := l.queue[0].since
	for _, e := range l.queue[1:] {
		at = min(at, e.since)
	}
	return at
}

type laneKey struct {
	model string
	class uint64
	bin   int
	home  *engine // where they wait, in a queue per engine; nil: anywhere
}

// Submit takes a request, and returns the batches that are to go now.
func (s *Scheduler) Submit(now time.Duration, r Request) []Batch {
	e := &entry{Request: r, arrival: s.arrivals, since: now}
	s.arrivals++
	length := s.length(s.guess.expected(&r))
	s.expect(length)
	key := laneKey{model: r.Model, class: r.Class, bin: s.binOf(length)}
	if s.dispatch.Queue == runspec.EngineQueue {
		key.home = s.assign(r.Model)
	}
	if s.dispatch.Order == runspec.ShortestFirst {
		// Every request grows older at the same pace, so its age at arrival decides for good.
		e.rank = float64(s.guess.cost(&r)) + now.Seconds()*s.dispatch.Ageing
	}
	l := s.lane(key)
	at, _ := slices.BinarySearchFunc(l.queue, e, (*entry).compare)
	l.queue = slices.Insert(l.queue, at, e)
	return s.send(now)
}

// Ended takes in the answer to a request, and returns the batches that are to go now. The last answer of a batch frees
// the engine for the next.
func (s *Scheduler) Ended(now time.Duration, number, prompt, output int) []Batch {
	e := s.inFlight[number]
	delete(s.inFlight, number)
	b := e.batch
	b.to.inFlight--
	b.to.load -= e.cost
	b.tokens = append(b.tokens, prompt+output)
	b.longest = max(b.longest, output)
	if b.left--; b.left == 0 {
		b.to.batches--
		s.learn(b, now)
	}
	s.guess.learn(prompt, output)
	return s.send(now)
}

// Flush returns the batches whose window has ended.
func (s *Scheduler) Flush(now time.Duration) []Batch { return s.send(now) }

// NextFlush is when the next window ends, after now; false: none does.
func (s *Scheduler) NextFlush(now time.Duration) (at time.Duration, any bool) {
	for _, l := range s.lanes {
		window := s.rules.FlushWindow.Std()
		if window <= 0 || len(l.queue) >= s.rules.MaxBatchSize {
			continue
		}
		if t := l.oldest() + window; t > now && (!any || t < at) {
			at, any = t, true
		}
	}
	return at, any
}

func (s *Scheduler) lane(key laneKey) *lane {
	for _, l := range s.lanes {
		if l.laneKey == key {
			return l
		}
	}
	l := &lane{laneKey: key}
	s.lanes = append(s.lanes, l)
	return l
}

// pick is the requests of a lane, from the head on, that are to go to an engine.
type pick struct {
	lane *lane
	to   *engine
	n    int
}

func (s *Scheduler) send(now time.Duration) []Batch {
	var sent []Batch
	for p, ok := s.next(now); ok; p, ok = s.next(now) {
		sent = append(sent, s.sendOne(now, p))
	}
	return sent
}

// next is the batch that is to go now. A full one goes as soon as an engine is free; an incomplete one when its oldest
// request has waited for the flush window, wherever it spent that time.
func (s *Scheduler) next(now time.Duration) (pick, bool) {
	var best pick
	for _, l := range s.lanes {
		if best.lane != nil && !s.prefers(l, best.lane) {
			continue
		}
		to := s.choose(l)
		if to == nil {
			continue
		}
		n := min(s.target(l.bin), to.limit-to.inFlight)
		if len(l.queue) < n && now < l.oldest()+s.rules.FlushWindow.Std() {
			continue
		}
		best = pick{l, to, min(n, len(l.queue))}
	}
	return best, best.lane != nil
}

// target is how many requests a batch of a bin is to have.
func (s *Scheduler) target(bin int) int {
	size := s.rules.MaxBatchSize
	at := &s.bins[bin]
	if eta := s.rules.MemoryTokens; eta > 0 {
		mean, deviation := at.size.moments(s.guess)
		size = min(size, memoryBound(float64(eta), mean, deviation, s.theta))
	}
	if s.rules.TokenLatency > 0 {
		size = min(size, at.pace.target(s.rules.MaxBatchSize))
	}
	return max(1, size)
}

// prefers reports whether the next batch is taken from lane l rather than from o.
func (s *Scheduler) prefers(l, o *lane) bool {
	if a, b := s.binsBefore(l), s.binsBefore(o); s.rules.BinSelect == BinsInTurn && a != b {
		return a < b
	}
	return l.queue[0].compare(o.queue[0]) < 0
}

// binsBefore is how many bins come before a lane's, going round from the one served last.
func (s *Scheduler) binsBefore(l *lane) int {
	n := len(s.bins)
	return (l.bin - s.last - 1 + 2*n) % n
}

func (s *Scheduler) sendOne(now time.Duration, p pick) Batch {
	b := &batch{to: p.to, bin: p.lane.bin, left: p.n, sentAt: now}
	out := Batch{Engine: p.to.number}
	for _, e := range p.lane.queue[:p.n] {
		e.batch, e.cost = b, s.guess.cost(&e.Request)
		p.to.load += e.cost
		s.inFlight[e.Number] = e
		out.Requests = append(out.Requests, e.Number)
	}
	p.to.inFlight += p.n
	p.to.batches++
	s.last, s.lastSent = p.lane.bin, p.to.number
	if p.lane.queue = p.lane.queue[p.n:]; len(p.lane.queue) == 0 {
		s.lanes = slices.DeleteFunc(s.lanes, func(l *lane) bool { return l == p.lane })
	}
	return out
}
