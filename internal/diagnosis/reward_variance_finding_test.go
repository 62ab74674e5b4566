package diagnosis_test

import (
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func healthyRun() diagnosis.Input {
	in := with(seedCase(), func(m *simRun) { m.engines = 16 }).input()
	in.Spec.Group.Samples, in.Spec.Sampling.Temperature = 6, 1
	return in
}

// A trainer that has nothing to learn from is a problem, however fast its steps are: since when, and what may help.
func TestNoRewardVariance(t *testing.T) {
	t.Parallel()
	collapsed := runstatus.RewardVariance{Groups: 32, ZeroVariance: 30, Collapsed: true}
	back := runstatus.RewardVariance{Groups: 32, ZeroVariance: 10}
	zeroVarianceFrom := func(in *diagnosis.Input, step int) {
		for i := step; i < len(in.Records); i++ {
			in.Records[i].Service.ZeroVarianceGroups = 15
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*diagnosis.Input)
		verdict diagnosis.Verdict
		says    []string
	}{
		{"as the run told", func(in *diagnosis.Input) {
			in.RewardVariance, in.Records[11].Service.ZeroVarianceGroups = collapsed, 3
			in.RewardVarianceChanges = []diagnosis.RewardVarianceChange{{in.Records[5].Service.GrantedAt, collapsed}}
		}, diagnosis.VerdictProblem, []string{"nothing to learn since step 5: in 30 of the latest 32 groups",
			"higher sampling.temperature (1 now)",
			"of the 128 groups trained on in steps 4 to 11, 3 had equal rewards"}},
		{"as the run told, on its way back",
			func(in *diagnosis.Input) {
				in.RewardVariance = runstatus.RewardVariance{Groups: 32, ZeroVariance: 15, Collapsed: true}
			},
			diagnosis.VerdictProblem, []string{"little to learn: in 15 of the latest 32 groups"}},
		{"zero-variance groups are dropped", func(in *diagnosis.Input) {
			in.RewardVariance, in.Spec.Group.ZeroVariance = collapsed, runspec.DropZeroVariance
			in.Departures = []steprecord.LengthCount{counted("zero_variance", 0, 120)}
		}, diagnosis.VerdictWarning, []string{"at the engines' expense", "120 groups of the run were dropped for it"}},
		{"as the records tell", func(in *diagnosis.Input) { zeroVarianceFrom(in, 7) }, diagnosis.VerdictProblem,
			[]string{"nothing to learn since step 7: in 30 of the latest 32 groups"}},
		{"games that are all alike", func(in *diagnosis.Input) {
			in.RewardVariance, in.Spec.Sampling.Temperature = collapsed, 0
		}, diagnosis.VerdictProblem, []string{"sampling.temperature is 0"}},
		{"groups of one", func(in *diagnosis.Input) {
			in.RewardVariance, in.Spec.Group.Samples = collapsed, 1
		}, diagnosis.VerdictProblem, []string{"group.samples must be 2 or more"}},
		{"it came back", func(in *diagnosis.Input) {
			in.RewardVariance = back
			in.RewardVarianceChanges = []diagnosis.RewardVarianceChange{{in.Records[3].Service.GrantedAt, collapsed},
				{in.Records[8].Service.GrantedAt, back}}
		}, diagnosis.VerdictHealed, []string{"little or nothing to learn from step 3 until step 8"}},
		{"half of them have zero variance", func(in *diagnosis.Input) {
			in.RewardVariance = runstatus.RewardVariance{Groups: 32, ZeroVariance: 16}
		}, diagnosis.VerdictHealthy, nil},
		{"too few to tell", func(in *diagnosis.Input) {
			in.Records = in.Records[:4]
			for i := range in.Records {
				in.Records[i].Service.Groups, in.Records[i].Service.ZeroVarianceGroups = in.Records[i].Service.Groups[:3], 3
			}
		}, diagnosis.VerdictHealthy, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := healthyRun()
			tt.change(&in)
			r := diagnosis.Diagnose(in)
			found := finding(r, diagnosis.CauseNoRewardVariance).Cause != ""
			if r.Verdict != tt.verdict || found != (tt.says != nil) {
				t.Errorf("%s, want %s; found: %v\n%s", r.Verdict, tt.verdict, found, text(t, r))
			}
			checkSays(t, r, tt.says)
		})
	}
}
