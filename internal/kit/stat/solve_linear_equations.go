package stat

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Solve solves the few linear equations of a least-squares fit, whose matrix is symmetric and positive, by elimination;
// false: they have no one answer.
func Solve(matrix [][]float64, right []float64) (x []float64, ok bool) {
	const determined = 1e-12 // share of a row that must be its own
	n := len(right)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = append(slices.Clone(matrix[i]), right[i])
	}
	for i, row := range rows {
		if !(row[i] > determined*matrix[i][i]) {
			return nil, false
		}
		for _, below := range rows[i+1:] {
			floats.AddScaled(below, -below[i]/row[i], row)
		}
	}
	x = make([]float64, n)
	for i, row := range slices.Backward(rows) {
		x[i] = (row[n] - floats.Dot(row[i+1:n], x[i+1:])) / row[i]
	}
	return x, true
}
