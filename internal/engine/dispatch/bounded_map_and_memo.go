package dispatch

// boundedMap remembers a value for each of a bounded number of keys: two generations, the older of which is dropped
// whole when the younger is full.
type boundedMap[K comparable, V any] struct {
	young, old map[K]*remembered[V]
	most       int    // per generation
	turns      uint64 // generations dropped or about to be
	added      uint64 // changes when a key may be found that was not found before
}

// remembered is a value kept for its key as long as valid is true. Frequent callers keep a pointer to it.
type remembered[V any] struct {
	value V
	turn  uint64 // in which it was set last
}

func newBoundedMap[K comparable, V any](most int) boundedMap[K, V] {
	return boundedMap[K, V]{young: map[K]*remembered[V]{}, most: max(1, most/2), added: 1}
}

// find returns the entry of a key; nil: there is none any more.
func (m *boundedMap[K, V]) find(key K) *remembered[V] {
	if r := m.young[key]; r != nil {
		return r
	}
	return m.old[key]
}

// of is the value of a key, or the zero value.
func (m *boundedMap[K, V]) of(key K) (v V) {
	if r := m.find(key); r != nil {
		v = r.value
	}
	return v
}

// valid reports whether find would still find r.
func (m *boundedMap[K, V]) valid(r *remembered[V]) bool { return m.turns-r.turn <= 1 }

func (m *boundedMap[K, V]) set(key K, v V) *remembered[V] {
	r := m.young[key]
	if r != nil {
		r.value = v
		return r
	}
	r = m.old[key]
	if len(m.young) >= m.most {
		m.old = m.young
		m.young = make(map[K]*remembered[V], len(m.old))
		m.turns++
	}
	if r == nil {
		r = &remembered[V]{}
		m.added++
	}
	r.value, r.turn = v, m.turns
	m.young[key] = r
	return r
}

// memo caches a look-up of a boundedMap in a request.
type memo[V any] struct {
	found *remembered[V]
	asked uint64 // boundedMap.added at that time
}

// recall returns the entry of a key, or nil. It looks the key up only if something may have changed.
func (m *boundedMap[K, V]) recall(key K, at *memo[V]) *remembered[V] {
	if at.found != nil && m.valid(at.found) {
		return at.found
	}
	if at.asked == m.added && at.found == nil {
		return nil
	}
	at.found, at.asked = m.find(key), m.added
	return at.found
}

// put sets a value and the caller's memo of it.
func (m *boundedMap[K, V]) put(key K, at *memo[V], v V) {
	if r := at.found; r != nil && r.turn == m.turns {
		r.value = v // in the younger generation it can be set in place
		return
	}
	at.found = m.set(key, v)
}
