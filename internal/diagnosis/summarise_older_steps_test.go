package diagnosis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// longRun is a run of many steps with a checkpoint every 10 of them, a break, and a trainer that is slower for a while.
func longRun(steps int) diagnosis.Input {
	in := trainerRun(steps, func(k int, phases map[steprecord.Phase]float64) {
		if k%10 == 9 {
			phases[steprecord.PhaseCheckpoint] = 60
		}
		if k >= 1000 && k < 1200 {
			phases[steprecord.PhaseTrain] += 60
		}
	})
	return later(in, 333, 900)
}

// TestOlderStepsAreSummedUp: their ledger stays whole, their changes of level are kept, all of it in bounded space, and
// the report says that they were not looked at one by one.
func TestOlderStepsAreSummedUp(t *testing.T) {
	t.Parallel()
	in := longRun(3000)
	r := diagnosis.Diagnose(in)
	checkLedger(t, in, r)
	if l := r.Ledger; l.Steps != 3000 || l.From != 0 || l.To != 2999 {
		t.Errorf("the ledger is of %d steps, %d to %d", l.Steps, l.From, l.To)
	}
	lost := map[diagnosis.CauseName]float64{}
	for _, loss := range r.Ledger.Losses {
		lost[loss.Cause] += loss.Sec
	}
	if lost[diagnosis.CauseCheckpoint] != 300*60 || math.Abs(lost[diagnosis.CauseBetweenSteps]-900) > 1 {
		t.Errorf("lost: %v", lost)
	}
	if n := len(r.OldShifts); n != 2 || r.OldShifts[0].At != 1000 || r.OldShifts[1].At != 1200 {
		t.Errorf("older changes of level: %+v", r.OldShifts)
	}
	if len(r.NotLookedAt) != 1 || r.Steps > 500 {
		t.Errorf("%d steps were looked at, and not: %q", r.Steps, r.NotLookedAt)
	}
}

// TestOddRecordsOfOlderSteps: a step that has no record, one that cannot be, or two, costs that step at most.
func TestOddRecordsOfOlderSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		odd     func([]steprecord.StepRecord) []steprecord.StepRecord
		missing int
	}{
		{"none", func(r []steprecord.StepRecord) []steprecord.StepRecord { return r }, 0},
		{"no record of a step", func(r []steprecord.StepRecord) []steprecord.StepRecord { return slices.Delete(r, 20, 21) },
			1},
		{"no record of a block", func(r []steprecord.StepRecord) []steprecord.StepRecord {
			return slices.Delete(r, 0,
				230)
		}, 230},
		{"phases longer than the step", func(r []steprecord.StepRecord) []steprecord.StepRecord {
			r[120].Trainer.WallSec = 0.001
			return r
		}, 1},
		{"a phase of less than nothing", func(r []steprecord.StepRecord) []steprecord.StepRecord {
			r[120].Trainer.Phases = map[steprecord.Phase]float64{steprecord.PhaseTrain: -1}
			return r
		}, 1},
		{"a step that was done again", func(r []steprecord.StepRecord) []steprecord.StepRecord {
			return slices.Insert(r, 120, r[120])
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := trainerRun(1000, func(int, map[steprecord.Phase]float64) {})
			in.Records = tt.odd(in.Records)
			r := diagnosis.Diagnose(in)
			if r.Ledger.Steps != 1000-tt.missing || r.Ledger.To != 999 {
				t.Errorf("the ledger is of %d steps, %d to %d", r.Ledger.Steps, r.Ledger.From, r.Ledger.To)
			}
			if said := len(r.NotLookedAt) > 1; said != (tt.missing > 0) {
				t.Errorf("not looked at: %q", r.NotLookedAt)
			}
		})
	}
}

// TestMissingStepsAreNamed where the record of a step is missing among those that are looked at.
func TestMissingStepsAreNamed(t *testing.T) {
	t.Parallel()
	in := trainerRun(40, func(int, map[steprecord.Phase]float64) {})
	in.Records = slices.Delete(slices.Delete(in.Records, 30, 31), 10, 15)
	want := "steps 10-14, 30: there is no record of them, or it was left out"
	if r := diagnosis.Diagnose(in); !slices.Equal(r.NotLookedAt, []string{want}) {
		t.Errorf("not looked at: %q", r.NotLookedAt)
	}
}

// TestWhatIsKeptOfOlderStepsIsBounded, whatever happens in them.
func TestWhatIsKeptOfOlderStepsIsBounded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	names := []steprecord.Phase{steprecord.PhaseTrain, steprecord.PhaseCheckpoint, "eval_a", "eval_b"}
	in := trainerRun(5_000, func(k int, phases map[steprecord.Phase]float64) {
		if k%20 < 10 {
			phases[steprecord.PhaseTrain] *= 3
		}
		if rng.IntN(5) == 0 {
			phases[names[rng.IntN(len(names))]] += 1000 * rng.Float64()
		}
		if rng.IntN(4) == 0 {
			phases[steprecord.Phase("eval_"+string(rune('a'+rng.IntN(26)))+string(rune('a'+rng.IntN(26))))] = 20
		}
		phases[steprecord.PhaseTrain] += 3600 * 8 * rng.Float64()
	})
	var older diagnosis.Older
	for at := 0; at+diagnosis.OlderSteps <= len(in.Records); at += diagnosis.OlderBlock {
		next := diagnosis.SumUp(older, in.Records[at:at+diagnosis.OlderSteps])
		if next.To != rollout.Step(at+diagnosis.OlderBlock) || next.Missing != 0 {
			t.Fatalf("at %d: to %d, %d missing", at, next.To, next.Missing)
		}
		older = next
	}
	data, err := json.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 300_000 {
		t.Errorf("%d bytes are kept of %d steps", len(data), older.To)
	}
	sum := older.Ledger.UsefulSec
	for _, l := range older.Ledger.Losses {
		sum += l.Sec
	}
	if math.Abs(sum-older.Ledger.WallSec) > 1e-6*sum {
		t.Errorf("%v s of %v s", sum, older.Ledger.WallSec)
	}
}

// TestOnlyTheStepsThatAreAskedAbout are looked at.
func TestOnlyTheStepsThatAreAskedAbout(t *testing.T) {
	t.Parallel()
	in := longRun(2000)
	first, last := rollout.Step(900), rollout.Step(1099)
	in.First, in.Last = &first, &last
	r := diagnosis.Diagnose(in)
	if r.Ledger.From != 900 || r.Ledger.To != 1099 || len(r.Shifts) != 1 || r.Shifts[0].At != 1000 {
		t.Errorf("steps %d-%d, shifts %+v", r.Ledger.From, r.Ledger.To, r.Shifts)
	}
	if len(r.NotLookedAt) != 1 {
		t.Errorf("not looked at: %q", r.NotLookedAt)
	}
}

// BenchmarkDiagnoseLongRun is a diagnosis as a server makes it: of the newest steps, with 64 groups each, and of what
// is kept of the others.
func BenchmarkDiagnoseLongRun(b *testing.B) {
	in := with(seedCase(), func(m *simRun) { m.groups, m.steps = 64, 499 }).input()
	in.Spec.Buffer.GroupsPerStep = 64
	for i := range in.Records {
		in.Records[i].Step += 9500
	}
	older := diagnosis.Older{To: 9500}
	in.Older = &older
	b.ReportAllocs()
	for b.Loop() {
		diagnosis.Diagnose(in)
	}
}
