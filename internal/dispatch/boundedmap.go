package dispatch

// recent remembers a value for each of a bounded number of keys: two generations, the older of which is dropped whole
// when the younger is full.
type recent[K comparable, V any] struct {
	young, old map[K]V
	most       int // per generation
}

func newRecent[K comparable, V any](most int) recent[K, V] {
	return recent[K, V]{young: map[K]V{}, most: max(1, most/2)}
}

// of is the value of a key; the zero value if there is none, or none any more.
func (r *recent[K, V]) of(key K) V {
	if v, ok := r.young[key]; ok {
		return v
	}
	return r.old[key]
}

func (r *recent[K, V]) set(key K, v V) {
	if _, ok := r.young[key]; !ok && len(r.young) >= r.most {
		r.old = r.young
		r.young = make(map[K]V, len(r.old))
	}
	r.young[key] = v
}
