package calibration_test

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// run is step records of so many seconds, of which each step's own work is the first one's.
func run(seconds ...float64) []steprecord.StepRecord {
	var records []steprecord.StepRecord
	for i, sec := range seconds {
		records = append(records, steprecord.StepRecord{Step: rollout.Step(i), Done: true, Trainer: steprecord.StepReport{
			WallSec: sec, Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: sec - seconds[0]},
		}})
	}
	return records
}

// TestSteadySteps: after the later onset, without the last depth steps; a period as long as the depth does not matter.
func TestSteadySteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		depth    int
		a, b     []steprecord.StepRecord
		from, to rollout.Step
		mean     float64 // of a
	}{
		{"a jump at step 3", 2, run(5, 5, 5, 9, 10, 10, 10, 10), run(5, 5, 5, 9, 10, 10, 10, 10), 4, 6, 10},
		{"onsets differ", 2, run(5, 5, 9, 10, 10, 10, 10, 10), run(5, 5, 5, 9, 10, 10, 10, 10), 4, 6, 10},
		{"never starved", 3, run(5, 5, 5, 5, 5, 5, 5), run(5, 5, 5, 5, 5, 5, 5), 3, 4, 5},
		{"up and down", 2, run(4, 4, 9, 5, 9, 5, 9, 5, 9), run(4, 4, 9, 5, 9, 5, 9, 5, 9), 3, 7, 7},
		{"up and down, an odd number", 2, run(4, 4, 9, 5, 9, 5, 9, 5), run(4, 4, 9, 5, 9, 5, 9, 5), 3, 6, 7},
		{"one run is shorter", 2, run(5, 5, 9, 10, 10, 10, 10, 10), run(5, 5, 9, 10, 10, 10), 3, 4, 10},
		{"too short", 4, run(5, 5, 5, 5), run(5, 5, 5, 5), 4, 4, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := calibration.Steady(tt.depth, tt.a, tt.b)
			if w.From != tt.from || w.To != tt.to || math.Abs(w.MeanStep(tt.a)-tt.mean) > 1e-9 {
				t.Errorf("got %+v with mean %g, want %d to %d with %g", w, w.MeanStep(tt.a), tt.from, tt.to, tt.mean)
			}
		})
	}
}
