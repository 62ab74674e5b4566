package diagnosis_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
)

// longRun is a run of many steps with a checkpoint every 10 of them, a break, and a trainer that is slower for a while.
func longRun(steps int) diagnosis.Input {
	in := trainerRun(steps, func(k int, phases map[rollout.Phase]float64) {
		if k%10 == 9 {
			phases[rollout.PhaseCheckpoint] = 60
		}
		if k >= 1000 && k < 1200 {
			phases[rollout.PhaseTrain] += 60
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
	steps := 0
	for _, h := range r.Hours {
		steps += h.Steps
	}
	if steps < 2500 || steps > 2600 {
		t.Errorf("the hours hold %d steps", steps)
	}
}

// TestWhatIsKeptOfOlderStepsIsBounded, whatever happens in them.
func TestWhatIsKeptOfOlderStepsIsBounded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	names := []rollout.Phase{rollout.PhaseTrain, rollout.PhaseCheckpoint, "eval_a", "eval_b"}
	in := trainerRun(5_000, func(k int, phases map[rollout.Phase]float64) {
		if k%20 < 10 {
			phases[rollout.PhaseTrain] *= 3
		}
		if rng.IntN(5) == 0 {
			phases[names[rng.IntN(len(names))]] += 1000 * rng.Float64()
		}
		if rng.IntN(4) == 0 {
			phases[rollout.Phase("eval_"+string(rune('a'+rng.IntN(26)))+string(rune('a'+rng.IntN(26))))] = 20
		}
		phases[rollout.PhaseTrain] += 3600 * 8 * rng.Float64()
	})
	var older diagnosis.Older
	for at := 0; at+diagnosis.OlderSteps <= len(in.Records); at += diagnosis.OlderBlock {
		next, ok := diagnosis.SumUp(older, in.Records[at:at+diagnosis.OlderSteps])
		if !ok || next.To != rollout.Step(at+diagnosis.OlderBlock) {
			t.Fatalf("at %d: to %d, %v", at, next.To, ok)
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
