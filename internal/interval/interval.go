// Package interval is how far a mean of few measurements may be off: confidence intervals by Student's t distribution,
// for values that are independent and about normal, such as means of trials or of seeds.
//
// Start reading at Mean.
package interval

import (
	"fmt"
	"math"
)

// Interval is a mean, and how far to both sides of it the true one is believed to lie.
type Interval struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"` // of the width; negative: one value tells nothing of it
	N    int     `json:"n"`
}

// Mean is the interval that holds the true mean with a probability, such as 0.95.
func Mean(values []float64, confidence float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{Half: -1}
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / float64(n)
	if n == 1 {
		return Interval{mean, -1, 1}
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	deviation := math.Sqrt(squares / float64(n-1))
	return Interval{mean, StudentT(confidence, n-1) * deviation / math.Sqrt(float64(n)), n}
}

// Known reports whether there were values enough for a width.
func (i Interval) Known() bool { return i.Half >= 0 }

// Excludes reports whether a value lies outside: the mean differs from it by more than chance.
func (i Interval) Excludes(v float64) bool { return i.Known() && math.Abs(i.Mean-v) > i.Half }

// Format writes the interval with a verb for its numbers, as in 1.23 ± 0.04.
func (i Interval) Format(verb string) string {
	if !i.Known() {
		return fmt.Sprintf(verb, i.Mean)
	}
	return fmt.Sprintf(verb+" ± "+verb, i.Mean, i.Half)
}

// StudentT is the bound within which a t-distributed value of so many degrees of freedom lies with a probability, to
// both sides of zero.
func StudentT(probability float64, degrees int) float64 {
	if degrees < 1 || !(probability > 0) {
		return 0
	}
	if probability >= 1 {
		return math.Inf(1)
	}
	within := func(t float64) float64 {
		v := float64(degrees)
		return 1 - incompleteBeta(v/2, 0.5, v/(v+t*t))
	}
	low, high := 0.0, 1.0
	for within(high) < probability && high < 1e12 {
		high *= 2
	}
	for range 200 {
		if mid := (low + high) / 2; within(mid) < probability {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// incompleteBeta is the regularised incomplete beta function, by its continued fraction (Press et al., Numerical
// Recipes, 6.4, evaluated by Lentz's method).
func incompleteBeta(a, b, x float64) float64 {
	if x <= 0 || x >= 1 {
		return min(1, max(0, x))
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab - la - lb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(a, b, x) / a
	}
	return 1 - front*betaFraction(b, a, 1-x)/b
}

func betaFraction(a, b, x float64) float64 {
	const tiny = 1e-300
	orTiny := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/orTiny(1-(a+b)*x/(a+1))
	h := d
	for i := 1; i <= 300; i++ {
		m := float64(i)
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / orTiny(1+even*d)
		c = orTiny(1 + even/c)
		h *= d * c
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / orTiny(1+odd*d)
		c = orTiny(1 + odd/c)
		h *= d * c
		if math.Abs(d*c-1) < 1e-15 {
			break
		}
	}
	return h
}
