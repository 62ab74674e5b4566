package tictactoe

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzResume: a game that resumes from some bytes ends within the squares that are left, and its own checkpoint is the
// same game; any other bytes are an error.
func FuzzResume(f *testing.F) {
	for _, seed := range []string{
		`{"moves":[4,0,8]}`, `{"moves":[0,3,1,4,2]}`, `{"moves":[1,2],"opening":4}`, `{"moves":[]}`,
		`{"moves":null,"opening":-1}`,
		`{"moves":[4,4]}`, `{"moves":[9]}`, `{"moves":[0,1],"opening":1}`, `null`, `[]`, `{"moves":[1e2]}`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	env, err := New(Config{OpeningMoves: 2, OpeningPlayed: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, checkpoint []byte) {
		if scenario, err := env.Fork(checkpoint); err == nil {
			_, _ = env.Start(scenario, 1, 0) // May refuse it, but must not break.
		}
		g, err := env.Resume(checkpoint)
		if err != nil {
			return
		}
		for range squares {
			if g.Done() {
				break
			}
			prompts, err := g.Prompts()
			if err != nil || len(prompts) != 1 || len(prompts[0].Constraint.Choices) == 0 {
				t.Fatalf("%s: prompts %v, %v", checkpoint, prompts, err)
			}
			saved, err := g.Checkpoint()
			if err != nil {
				t.Fatal(err)
			}
			same, err := env.Resume(saved)
			if err != nil {
				t.Fatalf("%s does not resume from its own checkpoint %s: %v", checkpoint, saved, err)
			}
			again, err := same.Checkpoint()
			if err != nil || !bytes.Equal(saved, again) || same.Phase() != g.Phase() {
				t.Fatalf("%s resumed as %s: %v", saved, again, err)
			}
			if _, err := g.Act(map[string]string{prompts[0].Agent: prompts[0].Constraint.Choices[0]}); err != nil {
				t.Fatal(err)
			}
		}
		if !g.Done() {
			t.Errorf("%s: not over after %d moves", checkpoint, squares)
		}
		if result, err := g.Result(); err != nil || result.Rewards["X"]+result.Rewards["O"] != 1 {
			t.Errorf("%s: result %+v, %v", checkpoint, result, err)
		}
	})
}

// FuzzOptions: options of a run spec are refused or make scenarios that games begin from.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"opening_moves":4}`, `{"opening_moves":2,"opening_played":true}`,
		`{"opening_moves":5}`, `{"opening_moves":-1}`, `{"x":1}`, `null`, `{} {}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, options []byte) {
		env, err := FromOptions(json.RawMessage(options))
		if err != nil {
			return
		}
		scenario, err := env.Scenario(1)
		if err != nil {
			t.Fatal(err)
		}
		if g, err := env.Start(scenario, 1, 0); err != nil || g.Done() {
			t.Errorf("%s: scenario %s: %v", options, scenario, err)
		}
	})
}
