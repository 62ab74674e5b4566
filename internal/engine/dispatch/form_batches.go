package dispatch

import (
	"cmp"
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout/runspec"
)

// batch is requests that travel in one call.
type batch struct {
	id     uint64
	bin    int
	size   int
	left   int // not ended yet
	sentAt time.Time
	failed bool

	lengths []int // of the answers, as the bins count
	longest int   // output tokens
}

// answered takes in one request's part of the answer.
func (b *batch) answered(ev *TryEnded) {
	if b == nil || ev.Outcome != Served {
		return
	}
	b.lengths = append(b.lengths, ev.PromptTokens, ev.OutputTokens)
	b.longest = max(b.longest, ev.OutputTokens)
}

// failsFirst reports whether a failure is the first of its call; without a batch, every one is.
func (b *batch) failsFirst() bool {
	if b == nil {
		return true
	}
	first := !b.failed
	b.failed = true
	return first
}

// leaveBatch ends a request's part in a call. The last one frees the engine for the next batch.
func (s *Scheduler) leaveBatch(q *entry, e *engine) {
	b := q.batch
	if b == nil {
		return
	}
	q.batch = nil
	if b.left--; b.left > 0 {
		return
	}
	e.batches--
	if q.run.batcher != nil {
		q.run.batcher.learn(b, s.now)
	}
}

// batcher makes batches of a run's requests.
type batcher struct {
	rules runspec.Batching
	theta float64 // standard deviations between the mean batch size and the memory bound
	bins  []bin
	last  int // bin served last

	recent []int // lengths expected of recent requests, for bins of equal mass
	seen   int
	ends   []int // where bins end; one fewer than there are bins, or none as long as too little is known
}

// follow is a batcher by new rules; nil if they ask for none. What was learned of bins is kept while the bins stay
// the same.
func (b *batcher) follow(rules runspec.Batching) *batcher {
	if rules.MaxBatchSize < 1 {
		return nil
	}
	bins := max(1, rules.Bins)
	next := &batcher{rules: rules, bins: make([]bin, bins), ends: rules.Boundaries}
	overflow := cmp.Or(rules.Overflow, defaultOverflow)
	next.theta = math.Sqrt2 * math.Erfinv(1-2*overflow)
	if b != nil && len(b.bins) == bins && b.rules.MaxBatchSize == rules.MaxBatchSize {
		next.bins = b.bins
	}
	return next
}

func (b *batcher) perEngine() int { return max(1, b.rules.BatchesPerEngine) }

// target is how many requests a batch of a lane is to have.
func (b *batcher) target(l *lane, r *run) int {
	if l.alone {
		return 1
	}
	size := b.rules.MaxBatchSize
	at := &b.bins[l.bin]
	if eta := b.rules.MemoryTokens; eta > 0 {
		mean, deviation := at.size.moments(r)
		size = min(size, memoryBound(float64(eta), mean, deviation, b.theta))
	}
	if b.rules.TokenLatency > 0 {
		size = min(size, at.pace.target(b.rules.MaxBatchSize))
	}
	return max(1, size)
}

// nextBatch is the batch that is to go now. A full one goes as soon as an engine is free; an incomplete one when
// its oldest request has waited for the flush window, wherever it spent that time.
func (s *Scheduler) nextBatch(r *run) (pick, bool) {
	var best pick
	for _, l := range r.lanes {
		if best.lane != nil && !r.batcher.prefers(l, best.lane) {
			continue
		}
		if p, ok := s.offer(r, l); ok {
			best = p
		}
	}
	return best, best.lane != nil
}

func (s *Scheduler) offer(r *run, l *lane) (pick, bool) {
	to := s.choose(l.queue[0], s.servers(l))
	if to == nil {
		return pick{}, false
	}
	n := min(r.batcher.target(l, r), to.capacityFor(r))
	if len(l.queue) < n && !l.alone && s.now.Before(l.oldest().Add(r.batcher.rules.FlushWindow.Std())) {
		return pick{}, false
	}
	return pick{lane: l, to: to, n: min(n, len(l.queue))}, true
}

// prefers reports whether the next batch is taken from lane l rather than from o.
func (b *batcher) prefers(l, o *lane) bool {
	order := 0
	switch b.rules.BinSelect {
	case runspec.LongestQueue:
		order = len(o.queue) - len(l.queue)
	case runspec.BinsInTurn:
		order = b.binsBefore(l) - b.binsBefore(o)
	}
	if order != 0 {
		return order < 0
	}
	return l.queue[0].before(o.queue[0])
}

// binsBefore is how many bins come before a lane's, going round from the one served last.
func (b *batcher) binsBefore(l *lane) int {
	n := len(b.bins)
	return (l.bin - b.last - 1 + 2*n) % n
}

// oldest is when the request that has waited longest in a lane was submitted.
func (l *lane) oldest() time.Time {
	at := l.queue[0].since
	for _, q := range l.queue[1:] {
		if q.since.Before(at) {
			at = q.since
		}
	}
	return at
}

// flushAt is when the wait of a lane's incomplete batch ends.
func (b *batcher) flushAt(l *lane) time.Time {
	if b.rules.FlushWindow <= 0 || len(l.queue) >= b.rules.MaxBatchSize {
		return time.Time{}
	}
	return l.oldest().Add(b.rules.FlushWindow.Std())
}
