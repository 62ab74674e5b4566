package dispatch

// boundedMap remembers a value for each of a bounded number of keys: two generations, the older of which is dropped
// whole when the younger is full.
type boundedMap[K comparable, V any] struct {
	young, old map[K]V
	most       int // per generation
}

func newBoundedMap[K comparable, V any](most int) boundedMap[K, V] {
	return boundedMap[K, V]{young: map[K]V{}, most: max(1, most/2)}
}

// of is the value of a key; the zero value if there is none, or none any more.
func (r *boundedMap[K, V]) of(key K) V {
	if v, ok := r.young[key]; ok {
		return v
	}
	return r.old[key]
}

func (r *boundedMap[K, V]) set(key K, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.most {
		r.old = r.young
		r.young = make(map[K]V, len(r.old))
	}
	r.young[key] = v
}
