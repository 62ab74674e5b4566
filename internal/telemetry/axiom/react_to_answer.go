package axiom

import (
	"errors"
	"net/http"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"
)

// Bounds of waiting.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	minLimit   = time.Second // while a limit holds
	maxLimit   = 5 * time.Minute
	parkPause  = time.Minute // while somebody has to change something
	maxOdd     = 3           // answers that do not account for all events, before they are taken as they are
)

// statusQuota is Axiom's own: the month's ingest is used up.
const statusQuota = 430

// outcome is what came of sending a part.
type outcome struct {
	events           int    // sent
	status           int    // of the answer; 0: none came
	ingested, failed int64  // events that the answer accounts for, if it is a success
	failure          string // the first that failed
	err              error
}

// action is what to do about an outcome.
type action int

const (
	accounted action = iota // the answer is final for these events
	again                   // send the part again, after the pause
	split                   // send it in halves: one may pass
	refused                 // give the one event up
	park                    // as again, and say that somebody must change something
)

// reaction is an action and the pause before the next request.
type reaction struct {
	act   action
	pause time.Duration
}

// react decides about the outcome of the n-th try (from 0) of a part. Nothing is given up but a single event that Axiom
// refuses for what it is.
func react(o outcome, try int, now time.Time, jitter float64) reaction {
	var limit client.LimitError
	switch {
	case o.err == nil && (o.ingested+o.failed == int64(o.events) || try >= maxOdd):
		return reaction{act: accounted}
	case o.err == nil:
		return reaction{again, backoff(try, jitter)}
	case errors.As(o.err, &limit):
		return reaction{again, clamp(limit.Limit.Reset.Sub(now), minLimit, maxLimit)}
	}
	switch o.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if o.events > 1 {
			return reaction{act: split}
		}
		return reaction{act: refused}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return reaction{park, parkPause}
	case http.StatusTooManyRequests, statusQuota:
		return reaction{again, clamp(backoff(try, 1), minLimit, maxLimit)}
	}
	return reaction{again, backoff(try, jitter)}
}

// backoff doubles from a second to a minute; the whole of it is jitter, so that senders which failed together
// do not come back together.
func backoff(try int, jitter float64) time.Duration {
	pause := maxPause
	if try < 6 {
		pause = firstPause << try
	}
	return time.Duration(float64(pause) * jitter)
}

func clamp(d, low, high time.Duration) time.Duration { return min(max(d, low), high) }
