// Package stat is the one place for statistics of few values: medians, quantiles, and how far a mean may be off. Of
// gonum it takes sums and special functions: its package of statistics is more than a few lines are worth. Start
// reading at Mean.
package stat

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
)

// Sum is all of the values together.
func Sum[N int | int64 | float64](values iter.Seq[N]) (sum N) {
	for v := range values {
		sum += v
	}
	return sum
}

// Median is the middle of the values; 0 for none.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile interpolates between the sorted values; 0 for none. The median of two is half way between them, which
// gonum's kinds of quantiles do not give.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// Interval is a mean, and how far to both sides of it the true one is believed to lie.
type Interval struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"` // of the width; negative: one value tells nothing of it
	N    int     `json:"n"`
}

// Mean is the interval that holds the true mean with a probability, such as 0.95, by Student's t distribution: for
// values that are independent and about normal, such as means of trials or of seeds.
func Mean(values []float64, confidence float64) Interval {
	n := len(values)
	switch n {
	case 0:
		return Interval{Half: -1}
	case 1:
		return Interval{values[0], -1, 1}
	}
	mean, squares := Moments(values)
	deviation := math.Sqrt(squares / float64(n-1))
	return Interval{mean, StudentT(confidence, n-1) * deviation / math.Sqrt(float64(n)), n}
}

// Moments is the mean of values, and the sum of their squared deviations from it.
func Moments(values []float64) (mean, squares float64) {
	mean = floats.Sum(values) / float64(len(values))
	return mean, products(values, values, mean, mean)
}

// products is the sum of the products of deviations from two means, corrected for the means' own errors (Chan, Golub,
// LeVeque, 1983).
func products(x, y []float64, meanX, meanY float64) float64 {
	sum, restX, restY := 0.0, 0.0, 0.0
	for i := range x {
		dx, dy := x[i]-meanX, y[i]-meanY
		sum += dx * dy
		restX += dx
		restY += dy
	}
	return sum - restX*restY/float64(len(x))
}

// Slope is by how much y rises for each unit of x, by least squares, and the standard error of that. It needs three
// pairs, and x that are not all equal.
func Slope(x, y []float64) (slope, deviation float64) {
	meanX, squaresX := Moments(x)
	meanY := floats.Sum(y) / float64(len(y))
	slope = products(x, y, meanX, meanY) / squaresX
	offset, squares := meanY-slope*meanX, 0.0
	for i := range x {
		off := y[i] - offset - slope*x[i]
		squares += off * off
	}
	n := float64(len(x))
	return slope, math.Sqrt(squares / (n - 2) / squaresX)
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
	switch {
	case degrees < 1 || !(probability > 0):
		return 0
	case probability >= 1:
		return math.Inf(1)
	}
	nu, quantile := float64(degrees), (1+probability)/2
	t := mathext.InvRegIncBeta(nu/2, 0.5, 2*(1-quantile)) // F(x) = 1 - I_t(nu/2, 1/2)/2, where t = nu/(x^2 + nu)
	return math.Sqrt(nu * (1 - t) / t)
}
