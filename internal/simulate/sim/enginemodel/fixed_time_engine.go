package enginemodel

import (
	"slices"
	"time"
)

// Timed is an engine whose calls take a given time each, however many run beside them. Calls beyond its places wait, in
// the order in which they came.
type Timed struct {
	time   func(Call) time.Duration
	places int
	slow   float64

	running []timedCall // by their end
	waiting []Call
	events  []Event // not reported yet
	told    []Event // reported last

	changed time.Duration // until then Busy is counted
	stats   Stats
}

type timedCall struct {
	Call
	ends time.Duration
}

var _ Engine = (*Timed)(nil)

// NewTimed is an idle engine that runs so many calls at once, at least one.
func NewTimed(places int, each func(Call) time.Duration) *Timed {
	return &Timed{time: each, places: max(1, places), slow: 1}
}

// Submit begins calls, as far as there are places.
func (t *Timed) Submit(now time.Duration, calls []Call) error {
	t.catchUp(now)
	t.waiting = append(t.waiting, calls...)
	t.begin(now)
	return nil
}

func (t *Timed) begin(now time.Duration) {
	for len(t.waiting) > 0 && len(t.running) < t.places {
		call := timedCall{t.waiting[0], now + time.Duration(float64(t.time(t.waiting[0]))*t.slow)}
		t.waiting = slices.Delete(t.waiting, 0, 1)
		at, _ := slices.BinarySearchFunc(t.running, call.ends+1, func(c timedCall, end time.Duration) int {
			return int(c.ends - end)
		})
		t.running = slices.Insert(t.running, at, call)
	}
}

// catchUp ends what has ended by now.
func (t *Timed) catchUp(now time.Duration) {
	for len(t.running) > 0 && t.running[0].ends <= now {
		call := t.running[0]
		t.count(call.ends)
		t.running = slices.Delete(t.running, 0, 1)
		t.stats.Prompt += int64(call.Prompt)
		t.stats.Output += int64(call.Output)
		t.events = append(t.events, Event{At: call.ends, ID: call.ID, Kind: Ended})
		t.begin(call.ends)
	}
	t.count(now)
}

// count adds the time up to now during which the engine had work.
func (t *Timed) count(now time.Duration) {
	if len(t.running) > 0 && now > t.changed {
		t.stats.Busy += now - t.changed
	}
	t.changed = max(t.changed, now)
}

// Abort takes a call out. The next one begins in its place.
func (t *Timed) Abort(now time.Duration, id uint64) bool {
	t.catchUp(now)
	if i := slices.IndexFunc(t.running, func(c timedCall) bool { return c.ID == id }); i >= 0 {
		t.running = slices.Delete(t.running, i, i+1)
		t.begin(now)
		return true
	}
	i := slices.IndexFunc(t.waiting, func(c Call) bool { return c.ID == id })
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return i >= 0
}

// Load has every adapter at once.
func (t *Timed) Load(now time.Duration, id uint64, _ string) {
	t.catchUp(now)
	t.events = append(t.events, Event{At: now, ID: id, Kind: Loaded})
}

// SetSlow multiplies the time of calls yet to begin.
func (t *Timed) SetSlow(now time.Duration, factor float64) {
	t.catchUp(now)
	t.slow = factor
}

// Advance reports what happened up to now.
func (t *Timed) Advance(now time.Duration) []Event {
	t.catchUp(now)
	t.told, t.events = t.events, t.told[:0]
	return t.told
}

// Next is when the next call ends, or now where something is to be reported.
func (t *Timed) Next() (time.Duration, bool) {
	if len(t.events) > 0 {
		return t.events[0].At, true
	}
	if len(t.running) == 0 {
		return 0, false
	}
	return t.running[0].ends, true
}

// Stats is the engine's load and counters as of the last call.
func (t *Timed) Stats() Stats {
	s := t.stats
	s.Running, s.Waiting = len(t.running), len(t.waiting)
	for i := range t.running {
		s.KV += t.running[i].Prompt + t.running[i].Output
	}
	return s
}
