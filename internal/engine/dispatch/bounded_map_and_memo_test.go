package dispatch

import (
	"math/rand/v2"
	"testing"
)

// TestBoundedMap: who keeps a memo sees what who asks for the key every time sees, whatever is dropped in between.
func TestBoundedMap(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	m := newBoundedMap[int, int](8)
	young, old := map[int]int{}, map[int]int{} // the same by the word of its comment
	memos := make([]memo[int], 12)
	for n := range 20_000 {
		key := rng.IntN(len(memos))
		want, found := young[key]
		if !found {
			want, found = old[key]
		}
		switch r := m.recall(key, &memos[key]); {
		case (r != nil) != found, found && r.value != want:
			t.Fatalf("after %d changes key %d is remembered as %+v, want %d, %t", n, key, r, want, found)
		case m.of(key) != want:
			t.Fatalf("after %d changes key %d has %d, want %d", n, key, m.of(key), want)
		case rng.IntN(3) == 0:
			continue
		}
		if _, ok := young[key]; !ok && len(young) >= 4 {
			young, old = map[int]int{}, young
		}
		young[key] = n
		if rng.IntN(2) == 0 {
			m.set(key, n)
		} else {
			m.put(key, &memos[key], n)
		}
	}
}
