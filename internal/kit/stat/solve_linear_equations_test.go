package stat

import (
	"math"
	"testing"
)

func TestSolve(t *testing.T) {
	t.Parallel()
	x, ok := Solve([][]float64{{4, 2, 1}, {2, 5, 3}, {1, 3, 6}}, []float64{11, 21, 25})
	for i, want := range []float64{1, 2, 3} {
		if !ok || math.Abs(x[i]-want) > 1e-12 {
			t.Fatalf("got %v, %t; want 1, 2, 3", x, ok)
		}
	}
	if x, ok := Solve([][]float64{{1, 1}, {1, 1}}, []float64{1, 2}); ok {
		t.Errorf("equations without an answer give %v", x)
	}
	if x, ok := Solve([][]float64{{0}}, []float64{1}); ok {
		t.Errorf("0 x = 1 gives %v", x)
	}
}
