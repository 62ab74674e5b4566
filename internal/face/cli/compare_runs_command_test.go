package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// comparedRun answers for a run of so many steps that take so long.
func comparedRun(t *testing.T, answers map[string]reply, name string, depth int, sec float64) {
	t.Helper()
	run := fmt.Sprintf(`{"spec":{"name":%q,"model":"m","environment":{"kind":"diplomacy"},"group":{"samples":2},`+
		`"buffer":{"depth":%d,"groups_per_step":2}},"state":"running","attempts":{"finished":8,"failed":%d}}`, name, depth, depth)
	var steps []steprecord.StepRecord
	for i := range 12 {
		wall := sec + float64(i%3)/10
		steps = append(steps, steprecord.StepRecord{Step: rollout.Step(i + 1), Done: true,
			Trainer: steprecord.StepReport{WallSec: wall,
				Phases: map[steprecord.Phase]float64{"train": wall}}})
	}
	document, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		t.Fatal(err)
	}
	answers["GET /v1/runs/"+name] = reply{200, run}
	answers["GET /v1/runs/"+name+"/steps"] = reply{200, string(document)}
	answers["GET /v1/runs/"+name+"/games"] = reply{200, `{"games":[],"total":0}`}
	answers["GET /v1/runs/"+name+"/diagnosis"] = reply{200, `{"verdict":"healthy","summary":"all is\u001b[2J well"}`}
}

func TestRunCompare(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{}
	comparedRun(t, answers, "one", 2, 5)
	comparedRun(t, answers, "two", 4, 10)
	r, _ := command(t, answers, "", nil, "run", "compare", "one", "two")
	for _, want := range []string{"step time, s", "+5.00 ± 0.07", "+98 %", "buffer.depth  2    4", "of 12 and 12 steps",
		"verdict  one: "} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, r.stdout, r.stderr)
		}
	}
	harmless(t, r.stdout)
	r, _ = command(t, answers, "", nil, "run", "compare", "one", "two", "-o", "json", "--price", "2")
	var c struct {
		Measures []struct{ Name, Better string }
	}
	if err := json.Unmarshal([]byte(r.stdout), &c); err != nil || len(c.Measures) == 0 || c.Measures[0].Better != "a" {
		t.Errorf("%v: %s", err, r.stdout)
	}
	for _, args := range [][]string{{"one"}, {"one", "TWO"}, {"one", "two", "--last", "-1"}} {
		if r, _ := command(t, answers, "", nil, append([]string{"run", "compare"}, args...)...); r.code != ExitUsage {
			t.Errorf("%v: exit code %d", args, r.code)
		}
	}
	if r, _ := command(t, answers, "", nil, "run", "compare", "one", "three"); r.code != ExitNotFound {
		t.Errorf("exit code %d", r.code)
	}
}
