package pseudolm

// ranking yields the indices of probabilities from the largest to the smallest, equal ones in
// order of index and zeros not at all. It is a heap: what is not asked for is not sorted.
type ranking struct {
	probs []float64
	heap  []int32
}

// rank starts a ranking in the room given.
func rank(probs []float64, room []int32) *ranking {
	r := &ranking{probs: probs, heap: room[:0]}
	for i, p := range probs {
		if p > 0 {
			r.heap = append(r.heap, int32(i))
		}
	}
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	return r
}

// next is the likeliest index not yet given; ok is false when there is none.
func (r *ranking) next() (index int, ok bool) {
	if len(r.heap) == 0 {
		return 0, false
	}
	top := r.heap[0]
	last := len(r.heap) - 1
	r.heap[0] = r.heap[last]
	r.heap = r.heap[:last]
	r.sink(0)
	return int(top), true
}

func (r *ranking) before(a, b int32) bool {
	pa, pb := r.probs[a], r.probs[b]
	return pa > pb || pa == pb && a < b
}

func (r *ranking) sink(i int) {
	for {
		child := 2*i + 1
		if child >= len(r.heap) {
			return
		}
		if right := child + 1; right < len(r.heap) && r.before(r.heap[right], r.heap[child]) {
			child = right
		}
		if !r.before(r.heap[child], r.heap[i]) {
			return
		}
		r.heap[i], r.heap[child] = r.heap[child], r.heap[i]
		i = child
	}
}
