package buffer

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Asked is how a run's trainer asks for batches, at whichever server: for one that is not ready, and for the latest
// ones.
type Asked struct {
	Step  rollout.Step // the first that is not granted
	First time.Time    // when the trainer asked for it first; zero: it has not asked yet
	Last  time.Time    // when it asked last, to a second; zero: not recorded
	// Granted is the waits that have ended, the latest first.
	Granted []Grant
}

// Grant is one wait for a batch, from the first claim until the batch was formed.
type Grant struct{ Asked, At time.Time }

// askAgain is how long a trainer may be silent and still be waiting: one that is told to ask again does so about
// once a second.
const askAgain = 10 * time.Second

// grantsAsked is how many of the latest grants Asked looks at; more than a trainer is given in a few seconds.
const grantsAsked = 8

// Asked reads how the trainer asks for batches.
func (s *Store) Asked(ctx context.Context, run rollout.RunName) (Asked, error) {
	r, err := s.eval(ctx, askedScript, run, grantsAsked)
	if err != nil {
		return Asked{}, fmt.Errorf("asked: %w", err)
	}
	a := Asked{Step: rollout.Step(r.int(3))}
	times := reply{r.str(1), r.str(2)}
	times = append(times, r.list(4)...)
	at := make([]time.Time, len(times))
	for i := range times {
		if times.str(i) == "" {
			continue
		}
		if at[i], err = time.Parse(time.RFC3339Nano, times.str(i)); err != nil {
			return Asked{}, fmt.Errorf("asked: %w", err)
		}
	}
	a.First, a.Last = at[0], at[1]
	for i := 2; i+1 < len(at); i += 2 {
		a.Granted = append(a.Granted, Grant{at[i], at[i+1]})
	}
	return a, nil
}

// Waiting reports whether a trainer waits for the next batch now. One that has asked and then went away does not.
func (a Asked) Waiting(now time.Time) bool {
	return !a.First.IsZero() && (a.Last.IsZero() || now.Sub(a.Last) < askAgain)
}

// Within is how much of the time between two moments the trainer waited, for whichever batch.
func (a Asked) Within(from, to time.Time) time.Duration {
	total := time.Duration(0)
	for _, g := range a.Granted {
		total += overlap(g.Asked, g.At, from, to)
	}
	if a.First.IsZero() {
		return total
	}
	until := to
	if !a.Waiting(to) {
		until = a.Last
	}
	return total + overlap(a.First, until, from, to)
}

// overlap is what two stretches of time have in common.
func overlap(a, b, from, to time.Time) time.Duration {
	if a.Before(from) {
		a = from
	}
	if b.After(to) {
		b = to
	}
	return max(0, b.Sub(a))
}
