package diagnosis_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// noCause is the decision of what a report does not name.
const noCause diagnosis.Decision = ""

func TestCauses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		run    simRun
		change func(*diagnosis.Input)
		cause  diagnosis.CauseName
		want   diagnosis.Decision
	}{
		{"adapters load in no time", seedCase(), nil, diagnosis.CauseAdapterLoad, noCause},
		{"adapters load 5 s before each group", with(seedCase(), func(m *simRun) { m.load = 5 }), nil,
			diagnosis.CauseAdapterLoad, diagnosis.Contributes},
		{"adapters load as long as a group plays", with(seedCase(), func(m *simRun) { m.load = 75 }), nil,
			diagnosis.CauseAdapterLoad, diagnosis.IsCause},
		{"adapter loads not recorded", seedCase(), func(in *diagnosis.Input) { in.Loads = nil }, diagnosis.CauseAdapterLoad,
			diagnosis.Undecided},
		{"a straggler in every batch", with(seedCase(), func(m *simRun) { m.engines, m.depth, m.straggler = 16, 1, 6 }), nil,
			diagnosis.CauseStraggler, diagnosis.IsCause},
		{"even groups", seedCase(), nil, diagnosis.CauseStraggler, noCause},
		{"longer games", with(seedCase(), func(m *simRun) { m.engines, m.steps, m.growth = 9, 20, from(130, 2.4) }), nil,
			diagnosis.CauseLongerGames, diagnosis.IsCause},
		{"the same games", seedCase(), nil, diagnosis.CauseLongerGames, noCause},
		{"other runs on the fleet", with(seedCase(), func(m *simRun) { m.otherRuns = 1 }), nil, diagnosis.CauseOtherWork,
			diagnosis.IsCause},
		{"a fleet of its own", seedCase(), nil, diagnosis.CauseOtherWork, noCause},
		{"as many groups dropped as trained on", seedCase(), func(in *diagnosis.Input) {
			for i := range in.Records {
				v := &in.Records[i].Service
				v.AtClaim.Dropped = int64(16 * i) // half of what the fleet played
				for j := range v.Groups {
					v.Groups[j].Usage.ExecSec /= 2
				}
			}
		}, diagnosis.CauseDrops, diagnosis.IsCause},
		{"engines drained", with(seedCase(), func(m *simRun) { m.engines, m.steps, m.lost = 9, 24, lostAfter(4, 1800) }),
			func(in *diagnosis.Input) {
				in.Events = []diagnosis.Event{{At: after(1800), Kind: diagnosis.EventEngineLeft, Text: "e4 drained"}}
			}, diagnosis.CauseScaleDown, diagnosis.IsCause},
		{"a change at the jump", seedCase(), func(in *diagnosis.Input) {
			at := in.Records[3].Service.FirstAskedAt.Add(time.Second)
			in.Events = []diagnosis.Event{{At: at, Kind: diagnosis.EventConfig, Text: "set group.samples=12"}}
		}, diagnosis.CauseConfig, diagnosis.Possible},
		{"a change long before", seedCase(), func(in *diagnosis.Input) {
			in.Events = []diagnosis.Event{{At: in.Records[0].Service.FirstAskedAt, Kind: diagnosis.EventConfig,
				Text: "set steps=99"}}
		}, diagnosis.CauseConfig, noCause},
		{"another trainer took over", seedCase(), func(in *diagnosis.Input) {
			for i := 3; i < len(in.Records); i++ {
				in.Records[i].Generation = 2
			}
		}, diagnosis.CauseConfig, diagnosis.Possible},
		{"reference log-probs grow", with(seedCase(), func(m *simRun) { m.engines = 16 }), func(in *diagnosis.Input) {
			for i := 6; i < len(in.Records); i++ {
				in.Records[i].Trainer.Phases[steprecord.PhaseRefLogprobs] += 100
				in.Records[i].Trainer.WallSec += 100
			}
		}, diagnosis.CauseRefLogprobs, diagnosis.IsCause},
		{"reference log-probs stay", seedCase(), nil, diagnosis.CauseRefLogprobs, noCause},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.run.input()
			if tt.change != nil {
				tt.change(&in)
			}
			r := diagnosis.Diagnose(in)
			if c := cause(r, tt.cause); c.Decision != tt.want {
				t.Errorf("%s: %q (%s), want %s\n%s", tt.cause, c.Decision, c.Text, tt.want, text(t, r))
			}
		})
	}
}

// A jump that takes a step or two to build up is one jump, since its largest part.
func TestRise(t *testing.T) {
	t.Parallel()
	waits := []float64{0, 0, 0, 0, 85, 88, 87, 140, 141, 139, 142, 140}
	in := seedCase().input()
	for i := range in.Records {
		phases := in.Records[i].Trainer.Phases
		in.Records[i].Trainer.WallSec += waits[i] - phases[steprecord.PhaseWait]
		phases[steprecord.PhaseWait] = waits[i]
	}
	r := diagnosis.Diagnose(in)
	if len(r.Shifts) != 2 || r.Rise == nil || r.Rise.At != 4 || r.Rise.First != steprecord.PhaseWait ||
		*r.Findings[0].Since != 4 {
		t.Fatalf("two shifts in a row:\n%s", text(t, r))
	}
	first, last := r.Levels[0], r.Levels[2]
	if got := r.Rise.DeltaSec; math.Abs(got-(last.StepSec-first.StepSec)) > 1e-9 {
		t.Errorf("the rise is %v s, from %v s to %v s", got, first.StepSec, last.StepSec)
	}
	checkSums(t, r)
}

// The wait of a single step is told as it was, and not spread over the calm steps since.
func TestOneWait(t *testing.T) {
	t.Parallel()
	in := with(seedCase(), func(m *simRun) { m.engines = 16 }).input()
	late := &in.Records[9].Trainer
	late.WallSec, late.Phases[steprecord.PhaseWait] = late.WallSec+100, late.Phases[steprecord.PhaseWait]+100
	if r := diagnosis.Diagnose(in); len(r.Findings) == 0 ||
		!strings.Contains(r.Findings[0].Text, "waited 100 s in step 9") {
		t.Errorf("one wait of 100 s:\n%s", text(t, r))
	}
}

// Steps that do more than others are set aside, and say nothing about the level.
func TestRareSteps(t *testing.T) {
	t.Parallel()
	for _, phase := range []steprecord.Phase{steprecord.PhaseCheckpoint, "evaluation"} {
		in := with(seedCase(), func(m *simRun) { m.engines, m.steps = 16, 20 }).input()
		for i := 4; i < len(in.Records); i += 5 {
			in.Records[i].Trainer.Phases[phase] = 200
			in.Records[i].Trainer.WallSec += 200
		}
		r := diagnosis.Diagnose(in)
		if len(r.Shifts) > 0 || len(r.Levels) != 1 || r.Levels[0].StepSec != 150 || len(r.Notes) == 0 {
			t.Errorf("%s every five steps:\n%s", phase, text(t, r))
		}
	}
}

// An engine that was lost of late is told of, though it cost nothing.
func TestEventsOfTheFleetAreToldWhateverTheyCost(t *testing.T) {
	t.Parallel()
	in := with(seedCase(), func(m *simRun) { m.engines, m.steps = 16, 20 }).input()
	in.Events = []diagnosis.Event{{At: in.Records[15].Service.FirstAskedAt.Add(time.Second),
		Kind: diagnosis.EventEngineLost, Text: "e16 lost"}}
	r := diagnosis.Diagnose(in)
	if len(r.Fleet) != 1 || r.Fleet[0].Step != 15 || !strings.Contains(text(t, r), "e16 lost") {
		t.Errorf("the fleet's events: %+v\n%s", r.Fleet, text(t, r))
	}
}

// Steps that alternate with the buffer's depth are no noise in which a jump is lost.
func TestAJumpOfARunThatAlternates(t *testing.T) {
	t.Parallel()
	in := trainerRun(40, func(k int, phases map[steprecord.Phase]float64) {
		phases[steprecord.PhaseWait] = []float64{20, 180}[k%2]
		if k >= 20 {
			phases[steprecord.PhaseWait] += 80
		}
	})
	in.Spec.Buffer.MaxStaleness = 4
	r := diagnosis.Diagnose(in)
	if len(r.Shifts) != 1 || r.Shifts[0].At < 19 || r.Shifts[0].At > 21 {
		t.Errorf("%d shifts, want one at step 20:\n%s", len(r.Shifts), text(t, r))
	}
}

// The last steps of a run, for which nothing is launched any more, have the engines for themselves; that they are fast
// is no level, and no news.
func TestTheEndOfARunIsNoLevel(t *testing.T) {
	t.Parallel()
	in := with(seedCase(), func(m *simRun) { m.depth, m.steps = 4, 40 }).input()
	for i := range in.Records[37:] {
		trainer := &in.Records[37+i].Trainer
		trainer.WallSec -= trainer.Phases[steprecord.PhaseWait]
		trainer.Phases[steprecord.PhaseWait] = 0
	}
	r := diagnosis.Diagnose(in)
	if len(r.Shifts) != 1 || r.Shifts[0].At != 7 || r.Regime.Kind != diagnosis.CapacityBound {
		t.Errorf("%d shifts, %s:\n%s", len(r.Shifts), r.Regime.Kind, text(t, r))
	}
}

// What the trainer does not report is filled in from the service's own clock.
func TestWithoutTrainerPhases(t *testing.T) {
	t.Parallel()
	in := seedCase().input()
	for i := range in.Records {
		in.Records[i].Trainer = steprecord.StepReport{}
	}
	r := diagnosis.Diagnose(in)
	if r.Regime.Kind != diagnosis.CapacityBound || *r.Findings[0].Since != 3 {
		t.Errorf("the service alone saw:\n%s", text(t, r))
	}
	checkSums(t, r)
}

// Too little to say is said, and starvation is a fact all the same.
func TestNotEnoughEvidence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		run     simRun
		verdict diagnosis.Verdict
		missing bool
	}{
		{"no step", with(seedCase(), func(m *simRun) { m.steps = 0 }), diagnosis.VerdictNoAnswer, true},
		{"three calm steps", with(seedCase(), func(m *simRun) { m.engines, m.steps = 16, 3 }), diagnosis.VerdictNoAnswer,
			true},
		{"three steps of a draining buffer", with(seedCase(), func(m *simRun) { m.steps = 3 }), diagnosis.VerdictWarning,
			false},
		{"one starved step", with(seedCase(), func(m *simRun) { m.steps = 4 }), diagnosis.VerdictProblem, true},
		{"no engine samples", with(seedCase(), func(m *simRun) { m.noFleet = true }), diagnosis.VerdictProblem, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := diagnosis.Diagnose(tt.run.input())
			if r.Verdict != tt.verdict || (len(r.Missing) > 0) != tt.missing || len(r.Next) == 0 {
				t.Errorf("%s, missing %q, next %q\n%s", r.Verdict, r.Missing, r.Next, text(t, r))
			}
			if tt.missing && r.Regime.Kind != diagnosis.NoRegime && r.Regime.Kind != diagnosis.ComputeBound {
				t.Errorf("guessed %s", r.Regime.Kind)
			}
		})
	}
}
