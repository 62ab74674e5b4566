package retry

import (
	"log/slog"
	"sync"
	"time"
)

// Outage logs that a service is unavailable: at once, then after growing rests. When the service answers again, it logs
// how long it did not. The caller decides when to ask the service.
type Outage struct {
	Log  *slog.Logger
	Down string // what is logged while it is unavailable
	Up   string // and when it is not any more

	mu    sync.Mutex
	since time.Time // zero: it answers
	next  time.Time // when it is logged again
	rest  time.Duration
}

// The rests between two logs of an outage: each is twice the one before.
const (
	firstRest = 10 * time.Second
	maxRest   = 10 * time.Minute
)

// Note takes what came of asking the service; nil: it answers.
func (r *Outage) Note(now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil && r.since.IsZero():
	case err == nil:
		r.Log.Info(r.Up, r.unavailable(now))
		r.since = time.Time{}
	case r.since.IsZero():
		r.Log.Warn(r.Down, "error", err)
		r.since, r.rest = now, firstRest
		r.next = now.Add(r.rest)
	case !now.Before(r.next):
		r.Log.Warn(r.Down, r.unavailable(now), "error", err)
		r.rest = min(2*r.rest, maxRest)
		r.next = now.Add(r.rest)
	}
}

func (r *Outage) unavailable(now time.Time) slog.Attr {
	return slog.String("unavailable_for", now.Sub(r.since).Round(time.Second).String())
}
