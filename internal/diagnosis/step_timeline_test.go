package diagnosis_test

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// TestAStepSecondBySecond: the spans follow each other without a gap, the wait among them is the trainer's, and each
// piece of it names the group that was waited for.
func TestAStepSecondBySecond(t *testing.T) {
	t.Parallel()
	in := seedCase().input()
	for _, r := range in.Records {
		s, ok := diagnosis.TimelineOf(in, r.Step)
		if !ok {
			t.Fatalf("no step %d", r.Step)
		}
		at, wait := 0.0, 0.0
		for _, one := range s.Spans {
			if math.Abs(one.FromSec-at) > 1e-6 || one.ToSec < one.FromSec {
				t.Errorf("step %d: %+v does not begin at %v", r.Step, one, at)
			}
			if at = one.ToSec; one.Phase == rollout.PhaseWait {
				wait += one.ToSec - one.FromSec
				if one.Group == nil && one.Place != diagnosis.PlaceHandover {
					t.Errorf("step %d: %+v names no group", r.Step, one)
				}
			}
		}
		if want := r.Trainer.Phases[rollout.PhaseWait]; math.Abs(wait-want) > 1e-6 {
			t.Errorf("step %d: %v s of waiting, want %v", r.Step, wait, want)
		}
	}
	if _, ok := diagnosis.TimelineOf(in, 99); ok {
		t.Error("a step that is not there")
	}
}
