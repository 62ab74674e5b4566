package batch

import (
	"errors"
	"slices"
	"time"
)

// Limits are what an engine's configuration and memory allow.
type Limits struct {
	Sequences   int // running at once
	Tokens      int // computed in one step
	KV          int // tokens in the cache
	Block       int // tokens in a block of the prefix cache
	Adapters    int // different ones in one step: GPU slots
	HostAdapter int // kept in host memory
	NoPrefix    bool
}

// Request is a prompt with the output it will get, as lengths: what is computed does not
// matter here.
type Request struct {
	ID      int64
	Adapter string // empty: the base model
	Prompt  int
	Output  int
	Prefix  []Segment // the full blocks of prompt and output, in order
}

// EventKind says what happened to a request.
type EventKind uint8

// The events of a request, in their order.
const (
	Admitted EventKind = iota
	FirstToken
	Finished
	Loaded // an adapter, not a request
)

// Event is something that happened at a time of the model.
type Event struct {
	Kind   EventKind
	ID     int64 // of the request or of the load
	At     time.Duration
	Cached int // Admitted, Finished: prompt tokens found in the prefix cache
}

// ErrTooLong is returned for a request that could never run.
var ErrTooLong = errors.New("prompt and output exceed the engine's KV cache")

// Totals count since the start.
type Totals struct {
	Submitted        int64
	Finished         int64
	Aborted          int64
	PromptTokens     int64 // of prompts whose prefill is complete
	CachedTokens     int64 // of those, found in the prefix cache
	GenerationTokens int64
	PrefixQueries    int64 // in tokens
	PrefixHits       int64 // in tokens
	Steps            int64
	Busy             time.Duration
}

// Held is a snapshot of what is in the engine.
type Held struct {
	Running         int
	Waiting         int
	Deferred        int // of those waiting: for an adapter slot
	KV              int // tokens of running sequences
	RunningAdapters []string
	WaitingAdapters []string
}

// Scheduler is the state of one engine. It is not safe for concurrent use. Times must not go
// back from call to call.
type Scheduler struct {
	cost   Cost
	limits Limits
	slow   float64

	running  []*sequence
	waiting  []*sequence
	loads    []load
	reserved int // KV tokens promised to running sequences
	private  int // those of them that are not whole prompt blocks, which the prefix cache holds
	paused   bool
	spare    []*sequence // to be used again
	cur      span        // the steps in progress; none when cur.steps == cur.done
	prefix   *prefixCache
	adapters *adapterCache
	totals   Totals

	events, spareEvents []Event // reports collected, and the slice handed out last
}

type sequence struct {
	Request
	computed  int // prompt tokens whose KV exists
	chunk     int // prompt tokens that the current step computes
	generated int
	cached    int
	at        places // of its prefix
}

func (q *sequence) decodes() bool { return q.computed == q.Prompt }
func (q *sequence) context() int  { return q.computed + q.generated }

type load struct {
	id      int64
	adapter string
}

// New makes an idle engine.
func New(cost Cost, limits Limits) *Scheduler {
	return &Scheduler{
		cost: cost, limits: limits, slow: 1,
		prefix:   newPrefixCache(),
		adapters: newAdapterCache(limits.Adapters, limits.HostAdapter),
	}
}

// Submit queues a request at time now. It is considered when the step in progress ends.
func (s *Scheduler) Submit(now time.Duration, r Request) error {
	if r.Prompt+r.Output > s.limits.KV {
		return ErrTooLong
	}
	s.totals.Submitted++
	q := s.newSequence(r)
	s.catchUp(now)
	s.waiting = append(s.waiting, q)
	s.interrupt(now)
	return nil
}

func (s *Scheduler) newSequence(r Request) *sequence {
	if n := len(s.spare); n > 0 {
		q := s.spare[n-1]
		s.spare = s.spare[:n-1]
		*q = sequence{Request: r, at: q.at}
		return q
	}
	return &sequence{Request: r}
}

// Load brings an adapter into memory between steps; Loaded reports its end.
func (s *Scheduler) Load(now time.Duration, id int64, adapter string) {
	s.catchUp(now)
	s.loads = append(s.loads, load{id, adapter})
	s.interrupt(now)
}

// Abort takes a request out, wherever it is; it reports whether it was there.
func (s *Scheduler) Abort(now time.Duration, id int64) bool {
	s.catchUp(now)
	same := func(q *sequence) bool { return q.ID == id }
	if i := slices.IndexFunc(s.waiting, same); i >= 0 {
		s.spare = append(s.spare, s.waiting[i])
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else if i := slices.IndexFunc(s.running, same); i >= 0 {
		q := s.running[i]
		s.release(q)
		s.running = slices.Delete(s.running, i, i+1)
		s.spare = append(s.spare, q)
	} else {
		return false
	}
	s.totals.Aborted++
	s.interrupt(now)
	return true
}

// SetPaused stops the engine after the step in progress, or lets it go on.
func (s *Scheduler) SetPaused(now time.Duration, paused bool) {
	s.catchUp(now)
	s.paused = paused
	s.interrupt(now)
}

// SetSlow multiplies the time of steps yet to begin.
func (s *Scheduler) SetSlow(now time.Duration, factor float64) {
	s.catchUp(now)
	s.slow = factor
	s.interrupt(now)
}

// Totals so far.
func (s *Scheduler) Totals() Totals { return s.totals }

// Held now.
func (s *Scheduler) Held() Held {
	h := Held{Running: len(s.running), Waiting: len(s.waiting)}
	for _, q := range s.running {
		h.KV += q.context()
		h.RunningAdapters = withAdapter(h.RunningAdapters, q.Adapter)
	}
	for _, q := range s.waiting {
		if !s.adapters.admits(q.Adapter) {
			h.Deferred++
		}
		h.WaitingAdapters = withAdapter(h.WaitingAdapters, q.Adapter)
	}
	return h
}

// InUse is how many requests run and wait, and the KV tokens of those that run.
func (s *Scheduler) InUse() (running, waiting, kv int) {
	for _, q := range s.running {
		kv += q.context()
	}
	return len(s.running), len(s.waiting), kv
}

func withAdapter(list []string, adapter string) []string {
	if adapter == "" || slices.Contains(list, adapter) {
		return list
	}
	return append(list, adapter)
}

// interrupt makes room for a change at the next step boundary, and starts an idle engine.
func (s *Scheduler) interrupt(now time.Duration) {
	if s.idle() {
		s.plan(now)
		return
	}
	s.cur.cut()
}

func (s *Scheduler) idle() bool { return s.cur.steps == s.cur.done }

// release gives back what a running sequence holds.
func (s *Scheduler) release(q *sequence) {
	s.reserve(q, -1)
	s.adapters.leave(q.Adapter)
}

// reserve takes (sign 1) or gives back (-1) the KV cache that a sequence may fill.
func (s *Scheduler) reserve(q *sequence, sign int) {
	block := max(s.limits.Block, 1)
	s.reserved += sign * (q.Prompt + q.Output)
	s.private += sign * (q.Prompt%block + q.Output)
}
