package virtualtime

import (
	"math"
	"testing"
)

// TestSplitMix: the first numbers of two seeds, as other programs have them. Those of 1234567 are Rosetta Code's,
// those of 0 the Java library's.
func TestSplitMix(t *testing.T) {
	t.Parallel()
	for seed, want := range map[uint64][]uint64{
		1234567: {6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821},
		0:       {0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B},
	} {
		r := SplitMix(seed)
		for i, w := range want {
			if got := r.Uint64(); got != w {
				t.Errorf("seed %d, number %d: %d, want %d", seed, i, got, w)
			}
		}
	}
	if got, want := SplitMix(1234567).Float64(), 0.3500795420214081; math.Abs(got-want) > 1e-15 {
		t.Errorf("a fraction of %v, want %v", got, want)
	}
}

// TestStreams: what one subsystem draws tells nothing of what another draws, or the same one with another seed.
func TestStreams(t *testing.T) {
	t.Parallel()
	draw := func(seed uint64, stream string) []float64 {
		r := NewRandom(seed, stream)
		x := make([]float64, 10_000)
		for i := range x {
			x[i] = r.Float64()
		}
		return x
	}
	first := draw(1, "games")
	if again := draw(1, "games"); again[9999] != first[9999] {
		t.Error("the same stream differs")
	}
	for name, other := range map[string][]float64{
		"another stream": draw(1, "trainer"), "another seed": draw(2, "games"), "a similar name": draw(1, "gamest"),
		"seed and stream changed": draw(3, "arrivals"), "the stream shifted by one": draw(1, "games")[1:],
	} {
		if c := correlation(first[:len(other)], other); math.Abs(c) > 0.04 {
			t.Errorf("%s: correlation %.3f", name, c)
		}
	}
}

func correlation(x, y []float64) float64 {
	var sx, sy, sxx, syy, sxy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
		sxx, syy, sxy = sxx+x[i]*x[i], syy+y[i]*y[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	return (n*sxy - sx*sy) / math.Sqrt((n*sxx-sx*sx)*(n*syy-sy*sy))
}

// TestDistributions: mean, variance and two points of each.
func TestDistributions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		draw           func(r *Random) float64
		mean, variance float64
		at, below      float64 // the share of values below at
	}{
		{"uniform", (*Random).Float64, 0.5, 1.0 / 12, 0.25, 0.25},
		{"exponential", (*Random).Exponential, 1, 1, math.Ln2, 0.5},
		{"normal", (*Random).Normal, 0, 1, -1, 0.158655},
		{"integers", func(r *Random) float64 { return float64(r.IntN(10)) }, 4.5, 8.25, 3, 0.3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const n = 200_000
			r := NewRandom(5, tt.name)
			var sum, squares, below float64
			for range n {
				x := tt.draw(r)
				sum += x
				squares += x * x
				if x < tt.at {
					below++
				}
			}
			mean := sum / n
			variance := squares/n - mean*mean
			if math.Abs(mean-tt.mean) > 0.02*max(1, tt.mean) || math.Abs(variance/tt.variance-1) > 0.03 ||
				math.Abs(below/n-tt.below) > 0.005 {
				t.Errorf("mean %.4f, variance %.4f, share below %.2f %.4f; want %.4f, %.4f, %.4f", mean, variance, tt.at,
					below/n, tt.mean, tt.variance, tt.below)
			}
		})
	}
}

func TestIntegersStayInTheirRange(t *testing.T) {
	t.Parallel()
	r := SplitMix(9)
	var seen [3]int
	for range 1000 {
		seen[r.IntN(3)]++ // panics outside
	}
	for i, n := range seen {
		if n == 0 {
			t.Errorf("%d never comes", i)
		}
	}
}
