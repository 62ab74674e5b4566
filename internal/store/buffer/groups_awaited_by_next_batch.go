package buffer

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// Awaited is the groups that the next batch of a run waits for.
type Awaited struct {
	Need    int // groups that the batch needs ready
	Ready   int // groups that are
	Launch  int // groups that are launched and not ready: queued or in flight
	Playing []AwaitedGroup
}

// AwaitedGroup is how far a launched group has come.
type AwaitedGroup struct {
	InFlight bool // a request of it was dispatched
	Begun    int  // games that have saved something
	Finished int  // games that are over
}

// Awaited looks at the groups that the next batch waits for, at most so many of those that are launched.
func (s *Store) Awaited(ctx context.Context, run rollout.RunName, most int) (Awaited, error) {
	r, err := s.eval(ctx, awaitedScript, run, most)
	if err != nil {
		return Awaited{}, fmt.Errorf("look at the groups that a batch waits for: %w", err)
	}
	a := Awaited{Need: int(r.int(1)), Ready: int(r.int(2)), Launch: int(r.int(3))}
	groups := r.list(4)
	for i := 0; i+2 < len(groups); i += 3 {
		a.Playing = append(a.Playing, AwaitedGroup{
			InFlight: groups.int(i) == 1, Begun: int(groups.int(i + 1)), Finished: int(groups.int(i + 2)),
		})
	}
	return a, nil
}
