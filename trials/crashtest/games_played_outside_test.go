package crashtest

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/trials/crashtest/outside"
)

// A program makes two calls more than once and reports its reward; an engine is asked each prompt once.
func TestCheckOfGamesPlayedOutside(t *testing.T) {
	t.Parallel()
	const id = "chaos-7/0/0/a"
	began := time.Unix(1000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		name  string
		spoil func(o *outcome, made *[]generation)
		says  string // of the one violation; empty: none
	}{
		{"nothing wrong", func(*outcome, *[]generation) {}, ""},
		{"another answer to the same call", func(o *outcome, _ *[]generation) { o.said[2].Answer = "other" },
			"was answered"},
		{"the same of a Redis that came back older", func(o *outcome, _ *[]generation) {
			o.said[2].Answer = "other"
			o.older = []exchange{{at(3), at(4)}}
		}, ""},
		{"the same after something else was asked", func(o *outcome, _ *[]generation) {
			o.said[2].Answer = "other"
			o.said = append(o.said, outside.Line{Trajectory: id, Wayward: true, At: at(4)})
		}, ""},
		{"asked again after its answer", func(_ *outcome, made *[]generation) {
			*made = append(*made, generation{prompt: "short", begun: at(9)})
		}, "was asked again"},
		{"asked again before its answer", func(_ *outcome, made *[]generation) {
			*made = append(*made, generation{prompt: "short", begun: at(1)})
		}, ""},
		{"a turn too few", func(o *outcome, _ *[]generation) { o.batches[0].answers[id] = []string{"zero"} },
			"its program made"},
		{"a reward of others", func(o *outcome, _ *[]generation) { o.batches[0].rewards[id]++ }, "its program made"},
		{"a lie that was taken", func(o *outcome, _ *[]generation) { o.said[0].Broken = "done takes nobody" },
			"done takes nobody"},
		{"another environment's game", func(o *outcome, _ *[]generation) { o.plan.cfg.Shape, o.said = OpenEnv, nil },
			"none of the choices"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			answers := []string{"zero", "one", "two", "three"}[:outside.Calls("0-0", "a")]
			o := outcome{plan: plan{cfg: RunConfig{Shape: External}}, batches: map[rollout.Step]*seenBatch{0: {
				trajectories: []string{id}, rewards: map[string]float64{id: outside.Reward(answers)},
				answers: map[string][]string{id: answers},
			}}, said: []outside.Line{
				{Trajectory: id, Call: 0, Answer: "zero", At: at(2), Since: began},
				{Trajectory: id, Call: 1, Answer: "one", At: at(3), Since: began},
				{Trajectory: id, Call: 0, Answer: "zero", At: at(6), Since: at(5)},
			}}
			made := []generation{{prompt: "short", begun: at(1)}, {prompt: "longer", begun: at(2)}}
			tt.spoil(&o, &made)
			o.generated = func(string) []generation { return made }
			var f findings
			f.outside(o)
			if got := strings.Join(f.violations, "\n"); (tt.says == "") != (got == "") || !strings.Contains(got, tt.says) {
				t.Errorf("got %q, want %q", got, tt.says)
			}
		})
	}
}
