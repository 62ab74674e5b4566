package engineprofile

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/millrace/millrace/internal/kit/stat"
)

// equation is one measurement: a weighted sum of the unknowns that should be equal to a value.
type equation struct {
	of     []float64
	value  float64
	weight float64 // 1 / the size of an error that counts as one
}

func (e *equation) residual(x []float64) float64 {
	return (floats.Dot(e.of, x) - e.value) * e.weight
}

// solve finds the unknowns, none negative, with which equations hold best. Equations that are far off count for less
// the farther they are (Huber), so that a few bad measurements do not bend the rest. The second result is what is left:
// the sum that was made least.
func solve(equations []equation, unknowns int) ([]float64, float64) {
	trust := make([]float64, len(equations))
	for i := range trust {
		trust[i] = 1
	}
	var x []float64
	const rounds = 12
	scale := 0.0
	for range rounds {
		x = nonNegative(equations, trust, unknowns)
		residuals := make([]float64, len(equations))
		for i := range equations {
			residuals[i] = math.Abs(equations[i].residual(x))
		}
		scale = max(1.4826*stat.Median(residuals), least)
		for i, r := range residuals {
			trust[i] = min(1, huber*scale/max(r, tiny))
		}
	}
	left := 0.0
	for i := range equations {
		r := math.Abs(equations[i].residual(x)) / least
		if r <= huber {
			left += r * r
		} else {
			left += huber * (2*r - huber)
		}
	}
	return x, left
}

const (
	huber = 1.5   // spreads from which on an equation counts for less
	least = 0.002 // no measurement is believed to be better than this
	tiny  = 1e-12
)

// nonNegative is the exact answer for given trust: of every choice of unknowns that are not zero, the best that comes
// out without a negative one. There are few unknowns, so that all choices can be tried.
func nonNegative(equations []equation, trust []float64, unknowns int) []float64 {
	scales := make([]float64, unknowns) // columns differ by many powers of ten
	for i := range equations {
		for k, v := range equations[i].of {
			scales[k] = max(scales[k], math.Abs(v*equations[i].weight))
		}
	}
	for k := range scales {
		scales[k] = max(scales[k], tiny)
	}
	gram, right := make([][]float64, unknowns), make([]float64, unknowns) // of the weighted, scaled equations
	for k := range gram {
		gram[k] = make([]float64, unknowns)
	}
	for i := range equations {
		e := &equations[i]
		of := floats.DivTo(make([]float64, unknowns), e.of, scales)
		w := e.weight * e.weight * trust[i]
		for k, v := range of {
			floats.AddScaled(gram[k], w*v, of)
		}
		floats.AddScaled(right, w*e.value, of)
	}
	best, gain := make([]float64, unknowns), 0.0 // all zero gains nothing
	for choice := 1; choice < 1<<unknowns; choice++ {
		var in []int
		for k := range unknowns {
			if choice>>k&1 == 1 {
				in = append(in, k)
			}
		}
		x, ok := solvePart(gram, right, in)
		if !ok || slices.ContainsFunc(x, func(v float64) bool { return v < 0 }) {
			continue
		}
		g := 0.0 // how much less is left over than with all zero
		for i, k := range in {
			g += x[i] * right[k]
		}
		if g > gain {
			gain = g
			clear(best)
			for i, k := range in {
				best[k] = x[i] / scales[k]
			}
		}
	}
	return best
}

// solvePart solves the part of a symmetric system that some unknowns make; false: it has no one answer.
func solvePart(gram [][]float64, right []float64, in []int) ([]float64, bool) {
	part, values := make([][]float64, len(in)), make([]float64, len(in))
	for i, k := range in {
		values[i] = right[k]
		for _, l := range in {
			part[i] = append(part[i], gram[k][l])
		}
	}
	return stat.Solve(part, values)
}
