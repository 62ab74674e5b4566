package diagnosis_test

import (
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
)

// Twice the engines for half the step cost the same; half the step with the same engines costs half.
func TestPrice(t *testing.T) {
	t.Parallel()
	r := diagnosis.Diagnose(seedCase().input())
	if r.Priced() || strings.Contains(text(t, r), "$") {
		t.Fatal("priced without a price")
	}
	r.Price(2)
	if w := whatIf(r, "engines 4 -> 8"); math.Abs(w.StepCost-2*8*150/3600.0) > 0.01 {
		t.Errorf("eight engines at 2 $ an hour: %v $ for a step of %v s", w.StepCost, w.StepSec)
	}
	if w := whatIf(r, "depth 2 -> 3"); math.Abs(w.StepCost-2*4*300/3600.0) > 0.01 {
		t.Errorf("four engines at 2 $ an hour: %v $ for a step of %v s", w.StepCost, w.StepSec)
	}
	if page := text(t, r); !strings.Contains(page, "$ per 1,000 steps") {
		t.Errorf("no costs in\n%s", page)
	}
}
