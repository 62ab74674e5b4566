package engineprofile

import (
	"math"
	"slices"
)

// equation is one measurement: a weighted sum of the unknowns that should be equal to a value.
type equation struct {
	of     []float64
	value  float64
	weight float64 // 1 / the size of an error that counts as one
}

func (e *equation) residual(x []float64) float64 {
	sum := -e.value
	for i, v := range x {
		sum += e.of[i] * v
	}
	return sum * e.weight
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
		scale = max(1.4826*median(residuals), least)
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
	gram := make([][]float64, unknowns) // of the weighted, scaled equations
	right := make([]float64, unknowns)
	for k := range gram {
		gram[k] = make([]float64, unknowns)
	}
	for i := range equations {
		e := &equations[i]
		w := e.weight * e.weight * trust[i]
		for k := range unknowns {
			a := e.of[k] / max(scales[k], tiny)
			right[k] += w * a * e.value
			for l := range unknowns {
				gram[k][l] += w * a * e.of[l] / max(scales[l], tiny)
			}
		}
	}
	best, gain := make([]float64, unknowns), 0.0 // all zero gains nothing
	for choice := 1; choice < 1<<unknowns; choice++ {
		var in []int
		for k := range unknowns {
			if choice>>k&1 == 1 {
				in = append(in, k)
			}
		}
		x, ok := eliminate(gram, right, in)
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
				best[k] = x[i] / max(scales[k], tiny)
			}
		}
	}
	return best
}

// eliminate solves the part of a symmetric system that some unknowns make; false: it has no one answer.
func eliminate(gram [][]float64, right []float64, in []int) ([]float64, bool) {
	n := len(in)
	m := make([][]float64, n)
	for i, k := range in {
		m[i] = make([]float64, n+1)
		for j, l := range in {
			m[i][j] = gram[k][l]
		}
		m[i][n] = right[k]
	}
	for col := range n {
		pivot := col
		for row := col + 1; row < n; row++ {
			if math.Abs(m[row][col]) > math.Abs(m[pivot][col]) {
				pivot = row
			}
		}
		if math.Abs(m[pivot][col]) < tiny*gram[in[col]][in[col]] || m[pivot][col] == 0 {
			return nil, false
		}
		m[col], m[pivot] = m[pivot], m[col]
		for row := col + 1; row < n; row++ {
			f := m[row][col] / m[col][col]
			for k := col; k <= n; k++ {
				m[row][k] -= f * m[col][k]
			}
		}
	}
	x := make([]float64, n)
	for row := n - 1; row >= 0; row-- {
		x[row] = m[row][n]
		for k := row + 1; k < n; k++ {
			x[row] -= m[row][k] * x[k]
		}
		x[row] /= m[row][row]
	}
	return x, true
}

// median of some numbers; 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
