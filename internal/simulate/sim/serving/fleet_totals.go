package serving

import (
	"time"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// Totals is sums over engines and time, from which rates and shares of any window follow.
type Totals struct {
	EngineSec    float64 // engines that take requests, over time
	BusySec      float64 // of these: with at least one running request, counted when a step ends
	InFlightSec  float64 // requests in flight, over time
	LimitSec     float64 // limits of requests in flight, over time
	QueuedSec    float64 // requests in the dispatcher's queue, over time
	Input        int64   // prompt tokens of answered requests
	Cached       int64   // of these, found in prefix caches
	Output       int64   // tokens of answers
	Submitted    int64   // requests
	Completed    int64
	Rejected     int64
	Cancelled    int64
	Held         int64 // neither completed, nor rejected, nor cancelled
	Redispatched int64
	TimedOut     int64 // tries that took too long
	// Worked is the tokens of engines that take requests, counted as they work and not when a request ends.
	Worked Tokens
}

// Tokens are counted by engines.
type Tokens struct {
	Prompt int64
	Cached int64 // of these, found in prefix caches
	Output int64
}

func (t *Tokens) add(of enginemodel.Stats) {
	t.Prompt += of.Prompt
	t.Cached += of.Cached
	t.Output += of.Output
}

// Totals is what the fleet has done since the beginning; differences of two are a window's.
func (f *Fleet) Totals() Totals {
	now := f.agenda.Now()
	f.totals.add(now, counts{})
	t := f.totals.Totals
	t.Held = int64(f.totals.present.queued + f.totals.present.inFlight)
	for _, e := range f.order {
		f.collect(now, e)
		stats := e.model.Stats()
		t.BusySec += stats.Busy.Seconds()
		t.Worked.add(stats)
	}
	return t
}

// accounts is totals up to a time, and what there is since then.
type accounts struct {
	Totals
	upTo    time.Duration
	present counts
}

// counts is what there is at a time.
type counts struct{ engines, limit, inFlight, queued int }

// add accounts for the time up to now, and then takes in a change.
func (a *accounts) add(now time.Duration, change counts) {
	p := &a.present
	if now > a.upTo {
		sec := (now - a.upTo).Seconds()
		a.EngineSec += sec * float64(p.engines)
		a.LimitSec += sec * float64(p.limit)
		a.InFlightSec += sec * float64(p.inFlight)
		a.QueuedSec += sec * float64(p.queued)
		a.upTo = now
	}
	p.engines += change.engines
	p.limit += change.limit
	p.inFlight += change.inFlight
	p.queued += change.queued
}
