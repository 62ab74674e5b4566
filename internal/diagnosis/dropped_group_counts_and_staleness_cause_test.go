package diagnosis_test

import (
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Games that are played and then dropped as stale are told when they are many, and as a problem when the trainer
// waits for it.
func TestStaleDrops(t *testing.T) {
	t.Parallel()
	lose := func(in *diagnosis.Input, perStep int, code rollout.Code) {
		for i := range in.Records {
			v := &in.Records[i].Service
			v.AtClaim.Dropped = int64(i * perStep)
			for range perStep {
				in.Drops = append(in.Drops, diagnosis.Drop{At: v.GrantedAt, Code: code})
			}
		}
	}
	halved := func(in *diagnosis.Input) { // the fleet played as many groups again
		for i := range in.Records {
			groups := in.Records[i].Service.Groups
			for j := range groups {
				groups[j].Usage.ExecSec /= 2
			}
		}
	}
	for _, tt := range []struct {
		name    string
		in      diagnosis.Input
		change  func(*diagnosis.Input)
		verdict diagnosis.Verdict // of the finding; empty: none
		says    []string
	}{
		{"a third, at no one's expense", healthyRun(), func(in *diagnosis.Input) { lose(in, 8, "stale") },
			diagnosis.VerdictWarning,
			[]string{"33 % of the groups that left in steps 0 to 11 were dropped as stale", "96 stale", "buffer.on_stale=wait"}},
		{"half, and the trainer waits", seedCase().input(), func(in *diagnosis.Input) { lose(in, 16, "stale"); halved(in) },
			diagnosis.VerdictProblem,
			[]string{"50 % of the groups", "a step would be 150 s shorter (modelled)"}},
		{"the longer ones", healthyRun(), func(in *diagnosis.Input) {
			lose(in, 8, "stale")
			in.Departures = []steprecord.LengthCount{counted(steprecord.Trained, 0, 10, 60, 30), counted("stale", 0, 0, 5, 91)}
		}, diagnosis.VerdictWarning, []string{"it is the longer games that are lost",
			"have longer games than those trained on"}},
		{"until the trainer was let wait", healthyRun(), func(in *diagnosis.Input) {
			lose(in, 8, "stale")
			in.Spec.Buffer.OnStale = runspec.WaitStale
		}, diagnosis.VerdictHealed, []string{"With buffer.on_stale: wait nothing more is dropped"}},
		{"one in twenty", healthyRun(), func(in *diagnosis.Input) { lose(in, 1, "stale") }, "", nil},
		{"for other reasons", healthyRun(), func(in *diagnosis.Input) { lose(in, 8, "shrunk") }, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.change(&tt.in)
			r := diagnosis.Diagnose(tt.in)
			if got := finding(r, diagnosis.CauseStaleDrops).Verdict; got != tt.verdict {
				t.Errorf("%q, want %q\n%s", got, tt.verdict, text(t, r))
			}
			checkSays(t, r, tt.says)
		})
	}
}
