package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Over 10,000 simulated samples that are stopped as soon as the interval is narrow, it holds the mean then in 95 % of
// them; and of pairs that do not differ, a difference is seen at any look in 5 %. Without the correction it is in 18 %.
func TestRepeatedLooksHoldTheirErrorRates(t *testing.T) {
	t.Parallel()
	const samples = 10_000
	wins := func(p float64) func(*rand.Rand) float64 {
		return func(r *rand.Rand) float64 {
			if r.Float64() < p {
				return 1
			}
			return 0
		}
	}
	for _, tt := range []struct {
		name         string
		mean         float64
		draw         func(*rand.Rand) float64
		looks, each  int
		confidence   float64
		narrow       float64
		least, most  float64 // share of samples in which some look excludes the mean
		power, apart float64 // share of samples whose interval excludes apart at some look
	}{
		{"normal", 0, (*rand.Rand).NormFloat64, 8, 16, RepeatedConfidence(8), 0.25, 0.04, 0.055, 0.9, 0.5},
		{"half are won", 0.5, wins(0.5), 8, 32, RepeatedConfidence(8), 0.1, 0, 1, 0.9, 0.7},
		{"most are won", 0.85, wins(0.85), 4, 50, RepeatedConfidence(4), 0.08, 0, 1, 0.9, 0.7},
		{"differences of pairs", 0, func(r *rand.Rand) float64 { return wins(0.6)(r) - wins(0.6)(r) }, 5, 40,
			RepeatedConfidence(5), 0.15, 0.04, 0.055, 0.9, 0.3},
		{"uncorrected", 0, (*rand.Rand).NormFloat64, 8, 16, 0.95, 0, 0.15, 1, 0.9, 0.5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			missed, seen, apart := 0, 0, 0
			for range samples {
				var m GroupedMean
				stopped, excluded, told := false, false, false
				for range tt.looks {
					for range tt.each {
						m = m.Add(OneGroup([]float64{tt.draw(r)}))
					}
					i := m.Interval(tt.confidence)
					excluded, told = excluded || i.Excludes(tt.mean), told || i.Excludes(tt.apart)
					if !stopped && i.Half <= tt.narrow {
						stopped = true
						missed += one(i.Excludes(tt.mean))
					}
				}
				if !stopped {
					missed += one(m.Interval(tt.confidence).Excludes(tt.mean))
				}
				seen, apart = seen+one(excluded), apart+one(told)
			}
			share := func(n int) float64 { return float64(n) / samples }
			t.Logf("missed %.4f, a difference that is none %.4f, one that is %.3f", share(missed), share(seen), share(apart))
			if share(missed) > 0.055 || share(seen) > tt.most || share(seen) < tt.least {
				t.Errorf("%.4f of the intervals miss the mean, want 0.05; %.4f see a difference that is none, want %g to %g",
					share(missed), share(seen), tt.least, tt.most)
			}
			if share(apart) < tt.power {
				t.Errorf("a difference is seen in %.3f, want %g", share(apart), tt.power)
			}
		})
	}
	if c := RepeatedConfidence(1); math.Abs(c-0.95) > 1e-3 {
		t.Errorf("one look: %v, want 0.95", c)
	}
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
