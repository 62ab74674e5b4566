package recordinput

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestSumUpKeepsTheNewest sums up whole blocks of older steps, and none where there are too few to judge them by.
func TestSumUpKeepsTheNewest(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, steps := range []rollout.Step{0, 1, 99, 100, 110, 111, 149, 150, 160, 210, 260, 399} {
		for _, newest := range []int{0, 1, 10, 200} {
			r := &runrecord.Record{}
			for k := range steps {
				at := began.Add(time.Duration(k) * time.Minute)
				r.Steps = append(r.Steps, steprecord.StepRecord{
					Step: k, Done: true,
					Trainer: steprecord.StepReport{WallSec: 60, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 60}},
					Service: steprecord.ServiceView{FirstAskedAt: at, GrantedAt: at, CompletedAt: at.Add(time.Minute), Depth: 2},
				})
			}
			if err := SumUp(r, newest); err != nil {
				t.Fatalf("%d of %d steps: %v", newest, steps, err)
			}
			if kept := len(r.Steps); newest == 0 && kept != int(steps) || newest > 0 && kept < min(newest, int(steps)) ||
				newest > 0 && kept >= newest+200 {
				t.Errorf("%d of %d steps: %d kept", newest, steps, kept)
			}
		}
	}
}
