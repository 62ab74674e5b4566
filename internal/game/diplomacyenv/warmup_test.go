package diplomacyenv

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/game/diplomacy"
	"github.com/millrace/millrace/internal/game/episode"
)

// warmUp lets a learner that answers at random play the warm-up of a seed, and returns the last checkpoint. Every
// checkpoint on the way is resumed, and the resumed game plays on.
func warmUp(t *testing.T, env *Env, seed int64) []byte {
	t.Helper()
	g, err := env.WarmUp(seed)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 5))
	for !g.Done() {
		if _, err := g.Act(answers(t, g, rng)); err != nil {
			t.Fatal(err)
		}
		if g, err = env.Resume(checkpoint(t, g)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Result(); err == nil {
		t.Error("a warm-up has a result")
	}
	return checkpoint(t, g)
}

func TestLearnersPlayTheWarmUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, options string }{
		{"all powers", `{"warmup_policy":"learner","warmup_phases":{"min":0,"max":6}}`},
		{"one among bots", `{"warmup_policy":"learner","warmup_phases":{"min":2,"max":4},"train":["TURKEY"]}`},
		{"rewarded per phase",
			`{"warmup_policy":"learner","warmup_phases":{"min":1,"max":3},"reward":{"kind":"step_final","per_turn":true}}`},
		{"longer than the horizon allows", `{"warmup_policy":"learner","warmup_phases":{"min":50,"max":60}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, tt.options)
			if !env.Warms() {
				t.Fatal("no policy is asked for")
			}
			if _, err := env.Scenario(1); err == nil || !strings.Contains(err.Error(), "warmup_policy") {
				t.Errorf("a scenario without a model: %v", err)
			}
			lengths := map[int]bool{}
			for seed := range int64(12) {
				lengths[forksAlike(t, env, seed)] = true
			}
			if w := env.cfg.WarmupPhases; w.Max > w.Min && w.Max < 50 && len(lengths) == 1 {
				t.Errorf("every warm-up has %v phases", lengths)
			}
		})
	}
}

// forksAlike plays a warm-up, forks it, and returns how many phases it had.
func forksAlike(t *testing.T, env *Env, seed int64) int {
	t.Helper()
	scenario, err := env.Fork(warmUp(t, env, seed))
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(scenario, &r); err != nil {
		t.Fatal(err)
	}
	w := env.cfg.WarmupPhases
	if r.Warmup != len(r.Phases) || r.Warmup > w.Max || r.Warmup < w.Min && w.Max < 50 {
		t.Errorf("seed %d: %d of %d phases are of the warm-up, want %d to %d", seed, r.Warmup, len(r.Phases), w.Min, w.Max)
	}
	var first []episode.Prompt
	for sample := range 3 {
		g, err := env.Start(scenario, seed, sample)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := diplomacy.ParsePhase(g.Phase()); err != nil || p.Year > env.lastYear {
			t.Errorf("seed %d: the warm-up leaves no year: %s", seed, g.Phase())
		}
		prompts, err := g.Prompts()
		if err != nil {
			t.Fatal(err)
		}
		if sample == 0 {
			first = prompts
		}
		for i := range prompts {
			if prompts[i].Text != first[i].Text {
				t.Errorf("seed %d: game %d begins otherwise than game 0", seed, sample)
			}
		}
		if !g.Done() && len(prompts) == 0 && env.cfg.Train.All {
			t.Errorf("seed %d: nobody is asked in %s", seed, g.Phase())
		}
	}
	return r.Warmup
}

func TestForkTakesOnlyWarmUps(t *testing.T) {
	t.Parallel()
	env := newEnv(t, `{"warmup_policy":"learner","warmup_phases":{"min":1,"max":1}}`)
	scenario, err := env.Fork(warmUp(t, env, 3))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(scenario, []byte("warm_up_to")) {
		t.Errorf("the scenario is still a warm-up: %s", scenario)
	}
	for _, bad := range [][]byte{scenario, []byte("{"), nil} {
		if _, err := env.Fork(bad); err == nil {
			t.Errorf("forked %q", bad)
		}
	}
	if newEnv(t, `{"warmup_policy":"learner"}`).Warms() {
		t.Error("a warm-up of no phases asks for a policy")
	}
}
