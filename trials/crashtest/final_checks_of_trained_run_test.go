package crashtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// good is a run of two steps that kept every promise.
func good() outcome {
	first := []string{"chaos-7/0/0/X", "chaos-7/0/0/O"}
	second := []string{"chaos-7/1/0/X", "chaos-7/1/0/O"}
	at := func(step int64) *int64 { return &step }
	return outcome{
		plan: plan{number: 7, life: 1, lives: 1, retain: 2, cfg: RunConfig{Steps: 2, GroupsPerStep: 1, Samples: 1}},
		journal: []trained{
			{Step: 0, Generation: 1, WallSec: 1, Groups: []int64{0}, Trajectories: first},
			// its trainer died before it could record it
			{Step: 0, Generation: 2, WallSec: 2, Groups: []int64{0}, Trajectories: first},
			{Step: 1, Generation: 2, WallSec: 3, Groups: []int64{1}, Trajectories: second},
			// the one before died after a checkpoint
			{Step: 1, Generation: 3, WallSec: 4, Groups: []int64{1}, Trajectories: second},
		},
		events: []event{
			{Event: attached, Generation: 1, Step: 0, ResumeFrom: at(0)},
			{Event: attached, Generation: 2, Step: 0, ResumeFrom: at(0)},
			{Event: recorded, Generation: 2, Step: 0},
			{Event: recorded, Generation: 2, Step: 1},
			{Event: attached, Generation: 3, Step: 1, ResumeFrom: at(1)},
			{Event: fenced, Generation: 2},
			{Event: recorded, Generation: 3, Step: 1},
			{Event: publishing, Generation: 2, Step: 0, Version: 1, Digest: "w1"},
		},
		records: []steprecord.StepRecord{
			{Step: 0, Generation: 2, Done: true, Trainer: steprecord.StepReport{WallSec: 2}},
			{Step: 1, Generation: 3, Done: true, Trainer: steprecord.StepReport{WallSec: 4}},
		},
		batches: map[rollout.Step]*seenBatch{
			0: {groups: []int64{0}, trajectories: first, turns: []seenTurn{{first[0], 0, answered{model, ""}}}},
			1: {groups: []int64{1}, trajectories: second, turns: []seenTurn{{second[0], 1, answered{"chaos-7-v1", "w1"}}}},
		},
		account: buffer.Account{
			Launched: 3, NextStep: 2, Counts: steprecord.BufferCounts{Completed: 2, Dropped: 1},
			Drops: map[rollout.Code]int64{"stale": 1},
		},
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
		{"hole", func(o *outcome) {
			o.journal = o.journal[:2]
		}, "step 1 was never trained", func(f findings) int { return f.holes }},
		{"unrecorded step", func(o *outcome) { o.account.NextStep = 1 }, "recorded", func(f findings) int { return f.holes }},
		{"step undone when the run was over", func(o *outcome) {
			o.records[1] = steprecord.StepRecord{Step: 1, Generation: 3}
		}, "steps [1] were completed, and are not any more", func(f findings) int { return f.holes }},
		{"step forgotten when the run was over", func(o *outcome) {
			o.records = o.records[:1]
		}, "steps [1] were completed, and are not any more", func(f findings) int { return f.holes }},
		{"record lost when the run was over", func(o *outcome) {
			o.records[1] = steprecord.StepRecord{Step: 1, Done: true, LostRecord: true}
		}, "", nil},
		{"lost trajectory", func(o *outcome) {
			o.journal[3].Trajectories = o.journal[3].Trajectories[:1]
		}, "has 1 trajectories", func(f findings) int { return f.lost }},
		{"lost game", func(o *outcome) {
			o.journal[3].Trajectories = nil
		}, "has 0 games, not 1 to 1", func(f findings) int { return f.lost / 2 }},
		{"fewer games than wanted, and enough", func(o *outcome) {
			o.plan.cfg.Samples, o.plan.cfg.Shape = 2, Stragglers
		}, "", nil},
		{"more games than wanted", func(o *outcome) {
			o.journal[3].Trajectories = append(o.journal[3].Trajectories, "chaos-7/1/1/X", "chaos-7/1/1/O")
		}, "has 2 games, not 1 to 1", nil},
		{"game of another group", func(o *outcome) {
			o.journal[3].Trajectories = []string{"chaos-7/5/0/X", "chaos-7/5/0/O"}
		}, "of none of its groups", nil},
		{"zero-variance group", func(o *outcome) {
			o.batches[0].zeroVariance, o.plan.cfg.Shape = []int64{0}, NoZeroVariance
		}, "all equal", nil},
		{"zero-variance group that may be trained on", func(o *outcome) { o.batches[0].zeroVariance = []int64{0} }, "", nil},
		{"lost group", func(o *outcome) { o.account.Launched++ }, "nowhere", func(f findings) int { return f.lost / 2 }},
		{"dropped for no reason", func(o *outcome) { o.account.Drops = nil }, "0 of them for a reason", nil},
		{"trained twice", func(o *outcome) {
			o.journal[3].Trajectories = o.journal[0].Trajectories
		}, "is in steps", func(f findings) int { return f.duplicated / 2 }},
		{"group in two steps", func(o *outcome) { o.journal[3].Groups = []int64{0} }, "group 0 is in steps", nil},
		{"another batch when asked again", func(o *outcome) {
			o.journal[1].Trajectories = []string{"chaos-7/0/1/X", "chaos-7/0/1/O"}
		}, "two different", nil},
		{"another batch than claims give", func(o *outcome) {
			o.batches[1].trajectories = []string{"x", "y"}
		}, "another batch than claims", nil},
		{"batch gone that was not kept", func(o *outcome) { o.plan.retain = 1; delete(o.batches, 0) }, "", nil},
		{"batch gone", func(o *outcome) { delete(o.batches, 1) }, "never be claimed again", nil},
		{"wrong adapter", func(o *outcome) {
			o.batches[1].turns[0].model = "chaos-7-v2"
		}, "version 1", func(f findings) int { return f.wrongVersion }},
		{"other weights under the name", func(o *outcome) {
			o.batches[1].turns[0].digest = "w2"
		}, "weights w2; published were w1", func(f findings) int { return f.wrongWeights }},
		{"adapter of an earlier life", func(o *outcome) {
			o.plan.life = 2
		}, "version 1", func(f findings) int { return f.wrongVersion }},
		{"adapter of this life", func(o *outcome) {
			o.plan.life, o.batches[1].turns[0].model = 2, string(rollout.PolicyVersion(1).Adapter("chaos-7@2"))
		}, "", nil},
		{"deleted before its end", func(o *outcome) {
			o.cut, o.journal, o.account, o.records = true, o.journal[:2], buffer.Account{}, nil
			delete(o.batches, 1)
		}, "", nil},
		{"hole before it was deleted", func(o *outcome) { o.cut, o.journal = true, o.journal[2:] }, "were trained that", nil},
		{"answer of no engine", func(o *outcome) {
			o.batches[0].turns[0].model = ""
		}, "version 0", func(f findings) int { return f.wrongVersion }},
		{"trained on again after Redis was emptied", func(o *outcome) {
			o.lost = true
			o.journal[0].Trajectories = []string{"chaos-7/1/0/X", "chaos-7/7/0/O"}
		}, "again after it", func(f findings) int { return f.duplicated }},
		{"recorded step trained again without going back", func(o *outcome) {
			o.events[4].ResumeFrom = nil
		}, "which did not go back", func(f findings) int { return f.duplicated }},
		{"sent elsewhere than asked", func(o *outcome) {
			*o.events[4].ResumeFrom = 0
		}, "resumed from step 0 and was sent to step 1", nil},
		{"step left out by a trainer", func(o *outcome) {
			o.journal = slices.Delete(o.journal, 1, 2)
		}, "trained step 1 where step 0 was due", nil},
		{"trainer of no generation", func(o *outcome) { o.journal[0].Generation = 9 }, "never announced", nil},
		{"record of a replaced trainer", func(o *outcome) {
			o.records[1].Generation, o.records[1].Trainer.WallSec = 2, 3
		}, "generation 3 had replaced from step 1 on", nil},
		{"record that nobody sent", func(o *outcome) { o.records[0].Trainer.WallSec = 9 }, "did not send", nil},
		{"record gone", func(o *outcome) { o.records = o.records[:1] }, "1 records are kept of 2 steps", nil},
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

// Steps trained again because a trainer went back are no duplicates, and those that nobody had recorded were not
// gone back to.
func TestRewoundStepsAreCountedApart(t *testing.T) {
	t.Parallel()
	f := check(good())
	if f.rewound != 1 || f.duplicated != 0 || f.refused != 1 || f.steps != 2 || f.trajectories != 4 {
		t.Errorf("%+v, want one step rewound, none duplicated, one trainer refused", f)
	}
}

// Successive runs take every shape, and each is what it says.
func TestRunsTakeEveryShape(t *testing.T) {
	t.Parallel()
	cfg := Config{Run: DefaultRun, Seed: 12}
	seen := map[Shape]runspec.Spec{}
	for number := 1; number <= len(shapes()); number++ {
		p := cfg.plan(number)
		seen[p.cfg.Shape] = p.spec()
	}
	for shape, is := range map[Shape]func(runspec.Spec) bool{
		Plain: func(s runspec.Spec) bool { return s.Group.MinSamples == s.Group.Samples },
		Stragglers: func(s runspec.Spec) bool {
			return s.Group.MinSamples < s.Group.Samples && s.Group.Oversample > 0 && s.Group.Grace > 0
		},
		NoZeroVariance: func(s runspec.Spec) bool { return s.Group.ZeroVariance == runspec.DropZeroVariance },
		Waiting:        func(s runspec.Spec) bool { return s.Buffer.OnStale == runspec.WaitStale },
		League:         func(s runspec.Spec) bool { return s.League.Slots > 0 && s.Environment.HasLeague() },
		ByFinish:       func(s runspec.Spec) bool { return s.Buffer.Order == runspec.FinishOrder },
	} {
		if spec, taken := seen[shape]; !taken || !is(spec) {
			t.Errorf("%s: taken %t, %+v", shape, taken, spec)
		}
	}
}
