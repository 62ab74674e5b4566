package diagnosis_test

import (
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// TestADriftIsSaidAsOne, in percent per step, and not cut into levels.
func TestADriftIsSaidAsOne(t *testing.T) {
	t.Parallel()
	in := noisy(trainerRun(60, func(k int, phases map[rollout.Phase]float64) {
		phases[rollout.PhaseTrain] *= math.Pow(1.015, float64(k))
	}), 4, 0.02)
	r := diagnosis.Diagnose(in)
	if len(r.Shifts) > 0 || r.Drift == nil || r.Drift.Of != diagnosis.DriftOfStep || r.Drift.First != rollout.PhaseTrain ||
		math.Abs(r.Drift.PerStep-0.011) > 0.002 {
		t.Fatalf("shifts %+v, drift %+v", r.Shifts, r.Drift)
	}
	if said := text(t, r); !strings.Contains(said, "Drift (measured): from step 0 to 59") {
		t.Errorf("does not say so:\n%s", said)
	}
}

// TestADriftThatTheComputeHides: the games take more with every step, and it is said when the trainer will wait.
func TestADriftThatTheComputeHides(t *testing.T) {
	t.Parallel()
	in := with(seedCase(), func(m *simRun) {
		m.engines, m.steps = 16, 36
		m.growth = func(group int) float64 { return math.Pow(1.001, float64(group)) }
	}).input()
	r := diagnosis.Diagnose(in)
	if r.Drift == nil || r.Drift.Equal == nil || *r.Drift.Equal < r.To || r.Drift.PerStep <= 0 {
		t.Fatalf("drift %+v\n%s", r.Drift, text(t, r))
	}
}
