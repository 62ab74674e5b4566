package capacity

import (
	"math"
	"math/rand/v2"
	"testing"
)

// observed is engines of a curve and of two speeds at loads around 40, with noise and a few outliers.
func observed(c Curve, spread, noise float64, n int) []Observation {
	rng := rand.New(rand.NewPCG(1, 2))
	var obs []Observation
	for i := range n {
		load := 40 * math.Exp(spread*rng.NormFloat64())
		sec := c.Slowdown(load) * float64(1+i%2) * math.Exp(noise*rng.NormFloat64())
		if i%25 == 7 {
			sec *= 3
		}
		obs = append(obs, Observation{Series: i % 2, Cluster: i / 4, InFlight: load, Sec: sec, Weight: 1})
	}
	return obs
}

func TestFitted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		curve         Curve
		spread, noise float64
		decided       bool
	}{
		{"requests do not feel each other", Curve{}, 0.2, 0.03, true},
		{"saturated", Curve{Half: 8, Knee: 1}, 0.2, 0.03, true},
		{"half and half", Curve{Half: 40, Knee: 1}, 0.3, 0.02, true},
		{"one load alone was seen", Curve{Half: 8, Knee: 1}, 0, 0.03, false},
		{"noise hides it", Curve{Half: 8, Knee: 1}, 0.01, 0.2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := Fitted(observed(tt.curve, tt.spread, tt.noise, 200), 40)
			if f.Decided() != tt.decided {
				t.Errorf("decided: %v, want %v: %+v", f.Decided(), tt.decided, f)
			}
			if is := tt.curve.Rise(40); tt.decided && math.Abs(f.Rise-is) > 0.1 || is < f.RiseLow-0.05 || is > f.RiseHigh+0.05 {
				t.Errorf("the rise is %.2f, fitted %.2f (%.2f-%.2f)", is, f.Rise, f.RiseLow, f.RiseHigh)
			}
		})
	}
	if f := Fitted(nil, 40); f.Decided() || f.Observations != 0 {
		t.Errorf("nothing was seen, and it says %+v", f)
	}
}

// Beyond the load at which it is flat, an engine answers as many requests in a time, however many are in flight.
func TestFlat(t *testing.T) {
	t.Parallel()
	c := Curve{Half: 8, Knee: 2, Flat: 20}
	for _, n := range []float64{5, 20} {
		if is, want := c.Slowdown(n), (Curve{Half: 8, Knee: 2}).Slowdown(n); is != want {
			t.Errorf("at %v: x%v, want x%v", n, is, want)
		}
	}
	if at20, at60 := 20/c.Slowdown(20), 60/c.Slowdown(60); math.Abs(at20-at60) > 1e-9 || c.Rise(60) != 0 {
		t.Errorf("it does %v at 20 in flight and %v at 60, a rise of %v", at20, at60, c.Rise(60))
	}
}
