package diagnosis_test

import (
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestADriftIsSaidAsOne, in percent per step, and not cut into levels.
func TestADriftIsSaidAsOne(t *testing.T) {
	t.Parallel()
	in := noisy(trainerRun(60, func(k int, phases map[steprecord.Phase]float64) {
		phases[steprecord.PhaseTrain] *= math.Pow(1.015, float64(k))
	}), 4, 0.02)
	r := diagnosis.Diagnose(in)
	if len(r.Shifts) > 0 || r.Drift == nil || r.Drift.Of != diagnosis.DriftOfStep ||
		r.Drift.First != steprecord.PhaseTrain ||
		math.Abs(r.Drift.PerStep-0.011) > 0.002 {
		t.Fatalf("shifts %+v, drift %+v", r.Shifts, r.Drift)
	}
	if said := text(t, r); !strings.Contains(said, "Drift (measured): from step 0 to 59") {
		t.Errorf("does not say so:\n%s", said)
	}
}
