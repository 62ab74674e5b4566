package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// probeLimits bounds what is spent on engines that do not answer, however many there are.
type probeLimits struct {
	lost  atomic.Int64        // engines that are lost
	slots *semaphore.Weighted // for looks at engines that did not answer the latest look
}

const (
	maxUnansweredLooks = 256              // at a time, of up to ProbeTimeout each
	maxPause           = 30 * time.Second // between two looks at a lost engine, if there are not thousands

	// lostShare bounds the looks at lost engines to 200 a second altogether.
	lostShare = 5 * time.Millisecond
)

func newProbeLimits() *probeLimits {
	return &probeLimits{slots: semaphore.NewWeighted(maxUnansweredLooks)}
}

// probeBackoff is how long one engine has not answered, and how often it is therefore looked at.
type probeBackoff struct {
	limits *probeLimits
	since  time.Time // of the first look that was not answered; zero: the latest was
	lost   bool      // enough looks in a row were not
}

// pause is how long to wait between two looks at the engine: an eighth of the time that it has been lost, so that it is
// noticed soon after a short absence, and longer if very many are.
func (b *probeBackoff) pause(now time.Time, interval time.Duration) time.Duration {
	if !b.lost {
		return interval
	}
	return max(interval, min(now.Sub(b.since)/8, maxPause), time.Duration(b.limits.lost.Load())*lostShare)
}

// missed notes a look that was not answered.
func (b *probeBackoff) missed(now time.Time, lost bool) {
	if b.since.IsZero() {
		b.since = now
	}
	if lost && !b.lost {
		b.lost = true
		b.limits.lost.Add(1)
	}
}

// reset notes that the engine answers, or is not looked at any more.
func (b *probeBackoff) reset() {
	if b.lost {
		b.limits.lost.Add(-1)
	}
	b.since, b.lost = time.Time{}, false
}

// probe makes a look, in turn with others if this engine did not answer the latest. It makes none when ctx is done.
func (b *probeBackoff) probe(ctx context.Context, look func()) {
	if !b.since.IsZero() {
		if b.limits.slots.Acquire(ctx, 1) != nil {
			return
		}
		defer b.limits.slots.Release(1)
	}
	look()
}
