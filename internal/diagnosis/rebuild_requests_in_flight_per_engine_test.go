package diagnosis

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestRateOverTime: the integral over any window is what each stretch has in common with it, added up.
func TestRateOverTime(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	origin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(sec float64) time.Time { return origin.Add(seconds(sec)) }
	var stretches []stretch
	for range 300 {
		from := 1000 * rng.Float64()
		stretches = append(stretches, stretch{at(from), at(from + 50*rng.Float64()), 3 * rng.Float64()})
	}
	stretches = append(stretches, stretch{time.Time{}, at(3), 1}, stretch{at(9), at(5), 1})
	r := integrated(stretches)
	for range 200 {
		from := 1100*rng.Float64() - 50
		w := window{at(from), at(from + 200*rng.Float64())}
		want := 0.0
		for _, s := range stretches {
			want += s.rate * w.overlap(s.from, s.to)
		}
		if got := r.in(w.from, w.to); got < want-1e-4 || got > want+1e-4 {
			t.Fatalf("from %v: %v, want %v", from, got, want)
		}
	}
	if got := integrated(nil).in(at(0), at(1)); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}
