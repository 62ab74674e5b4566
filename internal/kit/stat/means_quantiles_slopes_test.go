package stat

import (
	"math"
	"testing"
)

// Values of printed tables of the t distribution.
func TestStudentT(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		probability float64
		degrees     int
		want        float64
	}{
		{0.95, 1, 12.706}, {0.95, 2, 4.303}, {0.95, 4, 2.776}, {0.99, 4, 4.604}, {0.9, 10, 1.812}, {0.95, 30, 2.042},
		{0.95, 100000, 1.960}, {0.999, 1, 636.619}, {0.5, 3, 0.765},
	} {
		if got := StudentT(tt.probability, tt.degrees); math.Abs(got/tt.want-1) > 1e-3 {
			t.Errorf("%g with %d degrees: got %.4f, want %.3f", tt.probability, tt.degrees, got, tt.want)
		}
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"five", []float64{1, 2, 3, 4, 5}, "3.00 ± 1.96"},
		{"all alike", []float64{2, 2, 2}, "2.00 ± 0.00"},
		{"one tells nothing of its width", []float64{7}, "7.00"},
		{"none", nil, "0.00"},
	} {
		if got := Mean(tt.values, 0.95).Format("%.2f"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
	five := Mean([]float64{1, 2, 3, 4, 5}, 0.95)
	if five.Excludes(1.5) || !five.Excludes(1) || Mean([]float64{1}, 0.95).Excludes(9) {
		t.Error("an interval excludes what lies outside, and one value excludes nothing")
	}
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		q      float64
		want   float64
	}{
		{nil, 0.5, 0}, {[]float64{4}, 0.9, 4}, {[]float64{2, 1}, 0.5, 1.5}, {[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{1, 2, 3, 4}, 0.5, 2.5}, {[]float64{1, 2, 3, 4, 5}, 0.25, 2}, {[]float64{1, 2}, 1, 2},
	} {
		values := append([]float64(nil), tt.values...)
		if got := Quantile(values, tt.q); got != tt.want {
			t.Errorf("%g of %v: got %g, want %g", tt.q, tt.values, got, tt.want)
		}
	}
}

func TestSlope(t *testing.T) {
	t.Parallel()
	x, y := []float64{0, 1, 2, 3}, []float64{1, 3, 4, 8} // 11/5, and the root of 1.8/2/5
	if slope, deviation := Slope(x, y); math.Abs(slope-2.2) > 1e-12 || math.Abs(deviation-0.4242641) > 1e-6 {
		t.Errorf("%g ± %g", slope, deviation)
	}
}
