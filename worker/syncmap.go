package worker

import "sync"

// syncMap is a sync.Map with types.
type syncMap[K comparable, V any] struct{ m sync.Map }

func (s *syncMap[K, V]) load(k K) (V, bool) {
	v, ok := s.m.Load(k)
	if !ok {
		var zero V
		return zero, false
	}
	return v.(V), true
}

// loadOrStore keeps the first value stored under k and returns it.
func (s *syncMap[K, V]) loadOrStore(k K, v V) V {
	kept, _ := s.m.LoadOrStore(k, v)
	return kept.(V)
}
