package store

import (
	"slices"

	"github.com/millrace/millrace/internal/rollout"
)

// window is what Unshipped has listed of a scope, oldest first, and which of it is acknowledged. It holds the places of
// events and not the events, and goes when all of it is acknowledged.
type window struct {
	from   cursor
	places []place
	done   map[string]bool
}

// place is where an event is in a scope.
type place struct {
	id     string
	sample bool
	number int64 // as in Record
}

func placeOf(r Record) place { return place{r.ID, r.Droppable, r.number} }

// windowKey names a window.
type windowKey struct {
	sink  string
	scope rollout.RunName
}

// keepWindow remembers what was listed, and answers what of it is acknowledged already.
func (s *Store) keepWindow(sink string, scope rollout.RunName, from cursor, page []Record) (done map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := windowKey{sink, scope}
	old := s.windows[key]
	delete(s.windows, key)
	if len(page) == 0 {
		return nil
	}
	w := &window{from: from, places: make([]place, len(page)), done: map[string]bool{}}
	for i, r := range page {
		w.places[i] = placeOf(r)
		if old != nil && old.done[r.ID] {
			w.done[r.ID] = true
		}
	}
	s.windows[key] = w
	done = make(map[string]bool, len(w.done))
	for id := range w.done {
		done[id] = true
	}
	return done
}

// advance notes what is acknowledged, and finds how far the cursor can go.
func (s *Store) advance(sink string, scope rollout.RunName, ids []string) (from, to cursor, moved bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[windowKey{sink, scope}]
	if w == nil {
		return from, to, false
	}
	for _, id := range ids {
		w.done[id] = true
	}
	to = w.from
	for _, p := range w.places {
		if !w.done[p.id] {
			break
		}
		to, moved = to.past(p), true
	}
	return w.from, to, moved
}

// retract has events listed again whose acknowledgement Redis may not have: to send them twice is better than never to
// go on.
func (s *Store) retract(sink string, scope rollout.RunName, ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.windows[windowKey{sink, scope}]; w != nil {
		for _, id := range ids {
			delete(w.done, id)
		}
	}
}

// closeWindow forgets a window of which all is acknowledged, in Redis, too.
func (s *Store) closeWindow(sink string, scope rollout.RunName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := windowKey{sink, scope}
	if w := s.windows[key]; w != nil && !slices.ContainsFunc(w.places, func(p place) bool { return !w.done[p.id] }) {
		delete(s.windows, key)
	}
}

// forgetWindows forgets those of scopes in which nothing waits any more, such as runs whose events another server has
// shipped.
func (s *Store) forgetWindows(sink string, behind []rollout.RunName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.windows {
		if key.sink == sink && !slices.Contains(behind, key.scope) {
			delete(s.windows, key)
		}
	}
}
