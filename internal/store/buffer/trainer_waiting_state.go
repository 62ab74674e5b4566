package buffer

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Asked is how a run's trainer asks for the batch that is not granted yet, at whichever server.
type Asked struct {
	Next  rollout.Step // the first that is not completed
	Step  rollout.Step // the first that is not granted
	First time.Time    // when the trainer asked for it first; zero: it has not asked yet
	Last  time.Time    // when it asked last, to a second
}

// askAgain is how long a trainer counts as waiting after its last call: one that is told to ask again does so about
// once a second.
const askAgain = 10 * time.Second

// Waiting reports whether a trainer waits for the next batch now. One that has asked and then went away does not.
func (a Asked) Waiting(now time.Time) bool {
	return !a.First.IsZero() && (a.Last.IsZero() || now.Sub(a.Last) < askAgain)
}

var askedFields = []string{"granted", "next", "asked", "polled"}

// Asked reads how the trainer asks for its batch.
func (s *Store) Asked(ctx context.Context, run rollout.RunName) (Asked, error) {
	r, err := s.runFields(ctx, run, askedFields...)
	if err != nil {
		return Asked{}, err
	}
	return readAsked(r)
}

func readAsked(r reply) (a Asked, err error) {
	a.Step, a.Next = rollout.Step(r.int(0)), rollout.Step(r.int(1))
	for i, into := range []*time.Time{&a.First, &a.Last} {
		if *into, err = readStamp(r.str(2 + i)); err != nil {
			return a, fmt.Errorf("read how the trainer asks: %w", err)
		}
	}
	return a, nil
}
