package diagnosis

import (
	"slices"
)

func medianOf(steps []step, of func(*step) float64) float64 {
	values := make([]float64, len(steps))
	for i := range steps {
		values[i] = of(&steps[i])
	}
	return median(values)
}

// median is the middle of the values; 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// quantile interpolates between the sorted values; 0 for none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// movingMeans is the mean of every width values in a row.
func movingMeans(x []float64, width int) []float64 {
	var out []float64
	for i := width; i <= len(x); i++ {
		sum := 0.0
		for _, v := range x[i-width : i] {
			sum += v
		}
		out = append(out, sum/float64(width))
	}
	return out
}
