package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// absences bounds what is spent on engines that do not answer, however many there are.
type absences struct {
	lost  atomic.Int64        // engines that are
	looks *semaphore.Weighted // at engines of which the latest look was not answered
}

const (
	maxAbsentLooks = 256                  // at a time, of up to ProbeTimeout each
	lostShare      = 5 * time.Millisecond // of each second's looks: together, lost engines are looked at 200 times a second at most
	maxPause       = 30 * time.Second     // between two looks at a lost engine, if there are not thousands
)

func newAbsences() *absences { return &absences{looks: semaphore.NewWeighted(maxAbsentLooks)} }

// absence is one engine's.
type absence struct {
	all   *absences
	since time.Time // of the first look that was not answered; zero: the latest was
	lost  bool      // and so were enough of them
}

// pause is how long to wait between two looks at the engine: an eighth of the time that it has been lost, so that it is
// noticed soon after a short absence, and longer if very many are.
func (a *absence) pause(now time.Time, interval time.Duration) time.Duration {
	if !a.lost {
		return interval
	}
	return max(interval, min(now.Sub(a.since)/8, maxPause), time.Duration(a.all.lost.Load())*lostShare)
}

// missed notes a look that was not answered.
func (a *absence) missed(now time.Time, lost bool) {
	if a.since.IsZero() {
		a.since = now
	}
	if lost && !a.lost {
		a.lost = true
		a.all.lost.Add(1)
	}
}

// over notes that the engine answers, or is looked at no more.
func (a *absence) over() {
	if a.lost {
		a.all.lost.Add(-1)
	}
	a.since, a.lost = time.Time{}, false
}

// look makes a look, in turn with others if this engine did not answer the latest. When ctx is done there is none.
func (a *absence) look(ctx context.Context, do func()) {
	if !a.since.IsZero() {
		if a.all.looks.Acquire(ctx, 1) != nil {
			return
		}
		defer a.all.looks.Release(1)
	}
	do()
}
