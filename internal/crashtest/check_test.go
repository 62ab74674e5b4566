package crashtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/rollout"
)

// good is a run of two steps that kept every promise.
func good() outcome {
	first := []string{"r/0/0/X", "r/0/0/O"}
	second := []string{"r/1/0/X", "r/1/0/O"}
	return outcome{
		run: "r", cfg: RunConfig{Steps: 2, GroupsPerStep: 1, Samples: 1},
		journal: []trained{
			{Step: 0, Epoch: 1, Groups: []int64{0}, Trajectories: first},
			{Step: 0, Epoch: 2, Groups: []int64{0}, Trajectories: first}, // its trainer died before it could record it
			{Step: 1, Epoch: 2, Groups: []int64{1}, Trajectories: second},
		},
		batches: map[rollout.Step]*seenBatch{
			0: {groups: []int64{0}, trajectories: first, turns: []seenTurn{{"r/0/0/X", 0, model}}},
			1: {groups: []int64{1}, trajectories: second, turns: []seenTurn{{"r/1/0/X", 1, "r-v1"}}},
		},
		account: buffer.Account{Launched: 3, NextStep: 2, Counts: rollout.BufferCounts{Completed: 2, Dropped: 1}},
	}
}

func TestCheckFindsEveryBrokenPromise(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*outcome)
		says  string // of one violation; empty: none
		count func(findings) int
	}{
		{"nothing wrong", func(*outcome) {}, "", nil},
		{"hole", func(o *outcome) { o.journal = o.journal[:2] }, "never trained", func(f findings) int { return f.holes }},
		{"unrecorded step", func(o *outcome) { o.account.NextStep = 1 }, "recorded", func(f findings) int { return f.holes }},
		{"lost trajectory", func(o *outcome) { o.journal[2].Trajectories = o.journal[2].Trajectories[:1] }, "1 trajectories", func(f findings) int { return f.lost }},
		{"lost group", func(o *outcome) { o.account.Launched++ }, "nowhere", func(f findings) int { return f.lost / 2 }},
		{"trained twice", func(o *outcome) { o.journal[2].Trajectories = o.journal[0].Trajectories }, "is in steps", func(f findings) int { return f.duplicated / 2 }},
		{"group in two steps", func(o *outcome) { o.journal[2].Groups = []int64{0} }, "group 0 is in steps", nil},
		{"another batch when asked again", func(o *outcome) { o.journal[1].Trajectories = []string{"r/9/0/X", "r/9/0/O"} }, "two different", nil},
		{"another batch than claims give", func(o *outcome) { o.batches[1].trajectories = []string{"x", "y"} }, "another batch than claims", nil},
		{"batch gone", func(o *outcome) { delete(o.batches, 1) }, "never be claimed again", nil},
		{"wrong adapter", func(o *outcome) { o.batches[1].turns[0].model = "r-v2" }, "version 1", func(f findings) int { return f.wrongVersion }},
		{"answer of no engine", func(o *outcome) { o.batches[0].turns[0].model = "" }, "version 0", func(f findings) int { return f.wrongVersion }},
		{"trained on again after Redis was emptied", func(o *outcome) {
			o.lost = true
			o.journal[0].Trajectories = []string{"r/1/0/X", "r/7/0/O"}
		}, "again after it", func(f findings) int { return f.duplicated }},
		{"seen while it ran", func(o *outcome) { o.violations = []string{"the account went back"} }, "went back", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := good()
			tt.spoil(&o)
			f := check(o)
			if tt.says == "" && len(f.violations) > 0 {
				t.Errorf("violations %q", f.violations)
			}
			if !slices.ContainsFunc(append(f.violations, ""), func(v string) bool { return strings.Contains(v, tt.says) }) {
				t.Errorf("violations %q, none says %q", f.violations, tt.says)
			}
			if tt.count != nil && tt.count(f) != 1 {
				t.Errorf("counted %d, want 1: %+v", tt.count(f), f)
			}
		})
	}
}

func TestQuantileIsOneOfTheValues(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile(nil, 0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
}
