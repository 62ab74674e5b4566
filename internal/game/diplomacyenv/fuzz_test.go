package diplomacyenv

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
)

// FuzzRecord: bytes that are taken for a game are one: it plays on to its end, its own checkpoint is the same game, and
// it can be saved for others. All other bytes are an error.
func FuzzRecord(f *testing.F) {
	env := newEnv(f, `{"horizon_years":2,"warmup_phases":{"min":0,"max":2}}`)
	for seed := range int64(3) {
		scenario, err := env.Scenario(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(scenario)
		g := startGame(f, env, seed, 1)
		f.Add(checkpoint(f, g))
		for !g.Done() {
			if _, err := g.Act(answers(f, g, rand.New(rand.NewPCG(uint64(seed), 0)))); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(checkpoint(f, g))
	}
	warm := newEnv(f, `{"warmup_policy":"learner","warmup_phases":{"min":1,"max":1}}`)
	g, err := warm.WarmUp(1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(checkpoint(f, g))
	for _, seed := range []string{
		`{}`, `null`, `{"map":"standard","warmup":1,"phases":[]}`,
		`{"map":"standard","phases":[{"name":"S1901M","orders":{"FRANCE":["A PAR - MOS"]}}]}`,
		`{"map":"standard","phases":[{"name":"S1901M","orders":{"SPAIN":[]}}]}`, `{"map":"ancient"}`, `{"start":{}}`,
		`{"warm_up_to":-1}`,
		`{"start":{"phase":"W1901A","units":{"FRANCE":["A PAR"]},"centers":{"FRANCE":["PAR","MAR"]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := env.Fork(data); err == nil {
			_, _ = warm.Resume(data) // May refuse it, but must not break.
		}
		_, _ = SavedGame(data, "run/0/0")
		_, _ = env.Start(data, 1, 0)
		g, err := env.Resume(data)
		if err != nil {
			return
		}
		saved := checkpoint(t, g)
		same, err := env.Resume(saved)
		if err != nil {
			t.Fatalf("%s does not resume from its own checkpoint %s: %v", data, saved, err)
		}
		if again := checkpoint(t, same); !bytes.Equal(saved, again) || same.Phase() != g.Phase() {
			t.Fatalf("%s resumed as %s", saved, again)
		}
		const enough = 100 // Phases: a year has five at most, and a record may begin before the horizon.
		for range enough {
			if g.Done() {
				break
			}
			prompts, err := g.Prompts()
			if err != nil {
				t.Fatalf("%s in %s: %v", data, g.Phase(), err)
			}
			silent := map[string]string{}
			for _, p := range prompts {
				silent[p.Agent] = ""
			}
			if _, err := g.Act(silent); err != nil {
				t.Fatalf("%s in %s: %v", data, g.Phase(), err)
			}
		}
		if g.Done() && g.(*game).record.WarmUpTo == nil { // A warm-up has no result.
			if _, err := g.Result(); err != nil {
				t.Errorf("%s: %v", data, err)
			}
		}
	})
}

// FuzzOptions: options of a run spec are refused, or make scenarios that games begin from.
func FuzzOptions(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"constraint":"none","horizon_years":2}`, `{"train":"all"}`,
		`{"train":["FRANCE","TURKEY"],"opponents":{"ENGLAND":"random"}}`,
		`{"warmup_phases":{"min":3,"max":1}}`, `{"warmup_phases":{"min":0,"max":9223372036854775807}}`,
		`{"horizon_years":4294967295}`, `{"horizon_year":3}`,
		`{"opponents":{"SPAIN":"dumb"}}`, `{"start":{"phase":"S1901M","units":{"FRANCE":["A PAR"]}}}`,
		`{"start":{"phase":"S9999M"}}`, `{} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, options []byte) {
		env, err := FromOptions(json.RawMessage(options))
		if err != nil {
			return
		}
		if start, err := env.start(); err != nil || env.lastYear < start.Phase().Year {
			t.Fatalf("%s: the last year is %d: %v", options, env.lastYear, err)
		}
		if env.Warms() {
			_, err := env.WarmUp(1)
			if err != nil {
				t.Errorf("%s: %v", options, err)
			}
			return
		}
		scenario, err := env.Scenario(1)
		if err != nil {
			t.Fatalf("%s: %v", options, err)
		}
		if _, err := env.Start(scenario, 1, 0); err != nil {
			t.Errorf("%s: scenario %s: %v", options, scenario, err)
		}
	})
}
