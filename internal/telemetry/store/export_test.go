package store

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
