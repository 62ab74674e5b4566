package diagnosis_test

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/steprecord"
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
			if at = one.ToSec; one.Phase == steprecord.PhaseWait {
				wait += one.ToSec - one.FromSec
				if one.Group == nil && one.Place != diagnosis.PlaceHandover {
					t.Errorf("step %d: %+v names no group", r.Step, one)
				}
			}
		}
		if want := r.Trainer.Phases[steprecord.PhaseWait]; math.Abs(wait-want) > 1e-6 {
			t.Errorf("step %d: %v s of waiting, want %v", r.Step, wait, want)
		}
	}
	if _, ok := diagnosis.TimelineOf(in, 99); ok {
		t.Error("a step that is not there")
	}
}

// TestAStepThatWasAskedForAtNoTime: a record without first_asked_at has no times since then, and an unknown wait.
func TestAStepThatWasAskedForAtNoTime(t *testing.T) {
	t.Parallel()
	in := seedCase().input()
	for i := range in.Records {
		in.Records[i].Service.FirstAskedAt = time.Time{}
	}
	last := in.Records[len(in.Records)-1]
	s, ok := diagnosis.TimelineOf(in, last.Step)
	if !ok {
		t.Fatal("no timeline")
	}
	for _, g := range s.Groups {
		if g.ReadySec != 0 || g.LaunchSec != 0 || g.StartSec != 0 || len(g.Wait) != 0 {
			t.Errorf("group %d: %+v", g.Seq, g)
		}
	}
	for _, one := range s.Spans {
		if one.Phase == steprecord.PhaseWait && one.Place != diagnosis.PlaceUnknown {
			t.Errorf("%+v", one)
		}
	}
}
