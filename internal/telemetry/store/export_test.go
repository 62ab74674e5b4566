package store

import (
	"context"

	"github.com/millrace/millrace/internal/rollout"
)

// Windows is how many windows are held, and how many places they have.
func (s *Store) Windows() (windows, places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.windows {
		places += len(w.places)
	}
	return len(s.windows), places
}

// DefaultKind is the bounds of a kind of facts, unless others are set.
func DefaultKind(kind string) KindLimit { return Limits{}.withDefaults().of(kind) }

// Earlier reports whether an event's id is before another's.
func Earlier(a, b string) bool { return earlier(a, b) }

// CursorID is the id of the last event before which a sink has dealt with all of a scope.
func (s *Store) CursorID(ctx context.Context, sink string, scope rollout.RunName) (string, error) {
	at, _, err := s.cursorAt(ctx, sink, scope)
	return at.id, err
}
