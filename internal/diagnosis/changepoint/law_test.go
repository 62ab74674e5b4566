package changepoint_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/changepoint"
)

// noisy draws n values around 150 with up to three shifts, some spikes and multiplicative noise.
func noisy(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	level, cv := 150.0, 0.02+0.1*rng.Float64()
	for i := range x {
		if rng.IntN(n) < 2 {
			level *= 0.5 + 1.5*rng.Float64()
		}
		x[i] = level * math.Exp(cv*rng.NormFloat64())
		if rng.IntN(20) == 0 {
			x[i] *= 3
		}
	}
	return x
}

// The unit does not matter, and a series read backwards has its changes mirrored.
func FuzzDetectLaws(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, uint16(5+seed), 1+float64(seed)/7)
	}
	f.Fuzz(func(t *testing.T, seed uint64, length uint16, scale float64) {
		if !(scale > 1e-6 && scale < 1e6) {
			t.Skip("the scale would leave the range of step times")
		}
		n := changepoint.MinLength + int(length)%120
		x := noisy(rand.New(rand.NewPCG(seed, 1)), n)
		r := detect(t, x, changepoint.Options{})

		scaled := make([]float64, n)
		for i := range x {
			scaled[i] = x[i] * scale
		}
		s := detect(t, scaled, changepoint.Options{})
		if !slices.Equal(at(s), at(r)) || !slices.Equal(s.Outliers, r.Outliers) {
			t.Errorf("times %v: changes %v outliers %v, were %v %v", scale, at(s), s.Outliers, at(r), r.Outliers)
		}

		mirrored := slices.Clone(x)
		slices.Reverse(mirrored)
		checkMirror(t, r, detect(t, mirrored, changepoint.Options{}), n)
		checkShape(t, r, n)
		checkShape(t, detect(t, x, changepoint.Options{Refine: true}), n)
	})
}

// Two spikes at a change fit either level equally badly, so that the change may lie on either side
// of them; read backwards, the other side is met first.
func checkMirror(t *testing.T, r, mirrored changepoint.Result, n int) {
	t.Helper()
	if len(mirrored.Changes) != len(r.Changes) {
		t.Fatalf("backwards: changes at %v of %d, were %v", at(mirrored), n, at(r))
	}
	for i, c := range r.Changes {
		if back := n - mirrored.Changes[len(r.Changes)-1-i].At; max(back-c.At, c.At-back) > 2 {
			t.Errorf("backwards: change at %d, was at %d", back, c.At)
		}
	}
}

// Segments tile the series and every change lies between its neighbours.
func checkShape(t *testing.T, r changepoint.Result, n int) {
	t.Helper()
	next := 0
	for _, s := range r.Segments {
		if s.From != next || s.To-s.From < 2 {
			t.Errorf("segment [%d,%d) does not continue at %d with two values or more", s.From, s.To, next)
		}
		next = s.To
	}
	if next != n || len(r.Segments) != len(r.Changes)+1 {
		t.Errorf("%d segments to %d for %d changes of %d values", len(r.Segments), next, len(r.Changes), n)
	}
}

// The power and the false alarms of the method on fresh series, with room to spare: a change of the
// method that costs much of either fails here.
func TestDetectPower(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		n, at     int
		ratio, cv float64
		spikes    float64
		recall    float64 // at least
		alarms    float64 // at most, per series
	}{
		{"five steps", 5, 3, 2, 0.05, 0, 0.9, 0.02},
		{"twelve with spikes", 12, 3, 2, 0.10, 0.10, 0.7, 0.12},
		{"fifty with spikes", 50, 3, 2, 0.10, 0.05, 0.9, 0.08},
		{"small shift", 30, 15, 1.3, 0.10, 0.05, 0.65, 0.25},
		{"no change, short", 12, 0, 1, 0.10, 0.05, 0, 0.12},
		{"no change, long", 50, 0, 1, 0.10, 0.05, 0, 0.06},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const runs = 200
			rng := rand.New(rand.NewPCG(20, uint64(tt.n)))
			found, alarms, cycles := 0, 0, 0
			for range runs {
				x := make([]float64, tt.n)
				for i := range x {
					x[i] = 150 * math.Exp(tt.cv*rng.NormFloat64())
					if tt.at > 0 && i >= tt.at {
						x[i] *= tt.ratio
					}
					if rng.Float64() < tt.spikes {
						x[i] *= 3
					}
				}
				for _, at := range at(detect(t, x, changepoint.Options{})) {
					if tt.at > 0 && at >= tt.at-1 && at <= tt.at+1 {
						found++
					} else {
						alarms++
					}
				}
				if _, ok := changepoint.Oscillates(x, changepoint.Options{}); ok {
					cycles++
				}
			}
			recall, rate := float64(found)/runs, float64(alarms)/runs
			t.Logf("recall %.2f, false alarms %.3f, false cycles %.3f per series", recall, rate, float64(cycles)/runs)
			if recall < tt.recall || rate > tt.alarms {
				t.Errorf("recall %.2f and false alarms %.3f; want at least %.2f and at most %.3f", recall, rate, tt.recall,
					tt.alarms)
			}
			if float64(cycles)/runs > 0.05 {
				t.Errorf("%d of %d series taken for a cycle", cycles, runs)
			}
		})
	}
}

func BenchmarkDetect(b *testing.B) {
	for _, n := range []int{50, 200, 500} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			x := noisy(rand.New(rand.NewPCG(7, 7)), n)
			for b.Loop() {
				if _, err := changepoint.Detect(x, changepoint.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
