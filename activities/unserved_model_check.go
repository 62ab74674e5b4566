package activities

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// A game whose request has waited for unservedAfter for a model that no engine serves gives its slot back. What engines
// serve is read each servedFor at most, for all games of the process.
const (
	unservedAfter = 5 * time.Second
	servedFor     = time.Second
)

// servedModels remembers for a moment which models engines serve. The zero value is ready for use.
type servedModels struct {
	mu     sync.Mutex
	at     time.Time
	models map[string]bool
	// awaits: a fleet wakes, and the models it will serve are not known yet. awaitedAt is when it last did.
	awaits    bool
	awaitedAt time.Time
}

// awaitedFor is for how long a fleet that woke still is why a game could not go on.
const awaitedFor = 30 * time.Second

// awaitedFleet reports whether games have waited for a fleet that wakes until just now.
func (a *Activities) awaitedFleet() bool {
	s := &a.servedModels
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.awaitedAt.IsZero() && a.Now().Sub(s.awaitedAt) < awaitedFor
}

// unserved is why a game need not wait in its slot: no engine serves a model that it asks for. It is nil while that is
// not known, and for a fleet that wakes, whose engines all games wait for.
func (at *attempt) unserved(ctx context.Context) error {
	for _, model := range at.usageCounter.waitingSince(at.Now().Add(-unservedAfter)) {
		if ok, err := at.serves(ctx, model); err == nil && !ok {
			return rollout.Fail(rollout.Retryable, rollout.CodeUnserved, fmt.Errorf(
				"no engine serves %q; the game is tried again until one does: check the run's model, or add an engine that "+
					"serves it", model))
		}
	}
	return nil
}

// serves reports whether an engine that answers serves a model or adapter, or may when it has started.
func (a *Activities) serves(ctx context.Context, model string) (bool, error) {
	s := &a.servedModels
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := a.Now(); s.models == nil || now.Sub(s.at) > servedFor {
		engines, err := a.Fleet.List(ctx)
		if err != nil {
			return false, err
		}
		view, err := a.Fleet.Scaled(ctx)
		if err != nil {
			return false, err
		}
		s.at, s.awaits, s.models = now, view.Awaits(engines), map[string]bool{}
		if s.awaits {
			s.awaitedAt = now
		}
		for _, e := range engines {
			if e.State == enginestate.EngineLost {
				continue
			}
			for _, names := range [][]string{e.Models, e.Adapters} {
				for _, name := range names {
					s.models[name] = true
				}
			}
		}
	}
	return s.awaits || s.models[model], nil
}

// A game whose model no engine serves rests this long; the rest doubles with each attempt.
const (
	firstUnserved = 2 * time.Second
	lastUnserved  = 30 * time.Second
)

func restUnserved(excused int) time.Duration {
	return min(firstUnserved<<min(max(excused, 0), 10), lastUnserved)
}
