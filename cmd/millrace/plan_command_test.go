package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/plan"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// TestBadPlans holds what `millrace plan` says of what cannot be planned, and its exit codes.
func TestBadPlans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", demoSpec)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"", 2, "name a run, or a setup or a record with -f"},
		{"run -f " + good, 2, "name one"},
		{"-f " + dir + "/nothing.yaml", 1, "nothing.yaml"},
		{"-f " + file("junk.json", `{"steps": [`), 1, "junk.json"},
		{"-f " + file("steps.json", `{"steps": []}`), 1, "millrace run record"},
		{"-f " + file("other.json", `{"format": "x", "steps": []}`), 1, `format "x": want "millrace-run-record"`},
		{"-f " + good + " --engines 0", 2, "--engines \"0\": 0 is too small; the least is 1"},
		{"-f " + good + " --engines 4..1", 2, "write 1..4"},
		{"-f " + good + " --depth a", 2, "want whole numbers such as 4, 2,4,8 or 1..16"},
		{"-f " + good + " --groups 1,,2", 2, "--groups"},
		{"-f " + good + " --samples x", 2, "--samples"},
		{"-f " + good + " --engines 1..1000 --depth 1..64", 2, "10000 is the most"},
		{"-f " + good + " --price -1", 2, "--price -1: want what an engine costs"},
		{"-f " + good + " --price 0", 2, "--price 0"},
		{"-f " + good + " --target-step 150", 2, "missing unit"},
		{"-f " + good + " --target-step 0s", 2, "--target-step 0s"},
		{"-f " + good + " --lose x", 2, "such as 1@20"},
		{"-f " + good + " --lose 1@99999", 2, "lost at step 99999: take 1000 at most"},
		{"-f " + good + " --slow 0=0.5", 2, "engines are numbered from 1"},
		{"-f " + good + " --slow 1", 2, "such as 1=0.5"},
		{"-f " + good + " --engines 1..4 --slow 5=0.5", 2, "engine 5 is slow: no setting has more than 4 engines"},
		{"-f " + good + " --engines 2 --lose 9 --depth 1", 1, "fleet.events[1]: takes the last engine away"},
		{"-f " + good + " --publish -1s", 2, "--publish -1s"},
		{"-f " + good + " --seeds 0", 2, "want 1 to 1000"},
		{"-f " + good + " -o yaml", 2, "use table or json"},
		{"-f " + good + " --profile h100-80gb", 2, "--set fleet.profile=h100-80gb"},
		{"-f " + good + " --set fleet.engins=4", 1, "did you mean fleet.engines?"},
		{"-f " + good + " --engines 1 --lose 1 --depth 1", 1, "takes the last engine away"},
		{"nobody --server http://127.0.0.1:1", 5, "127.0.0.1:1"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			args := append([]string{"plan"}, strings.Fields(tt.args)...)
			code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("exit code %d, says %q; want %d and %q", code, stderr.String(), tt.code, tt.says)
			}
		})
	}
}

// trainerOf takes 100 s for a step with 1 engine, 50 s with 2, and never less than 20 s.
func trainerOf(_ context.Context, s sim.Setup, o sim.Options) (sim.Result, error) {
	var r sim.Result
	step := max(20, 100/float64(s.Fleet.Engines))
	for k := range o.MaxSteps {
		r.Input.Records = append(r.Input.Records, steprecord.StepRecord{Step: rollout.Step(k), Done: true,
			Trainer: steprecord.StepReport{WallSec: step, Phases: map[steprecord.Phase]float64{steprecord.PhaseWait: step - 20}},
			Service: steprecord.ServiceView{ReadyDepth: 1}})
	}
	return r, nil
}

func planText(t *testing.T, o planOptions) (stdout, stderr string) {
	t.Helper()
	var out, says bytes.Buffer
	env := environment{cli.Deps{Stdin: strings.NewReader(demoSpec), Stdout: &out, Stderr: &says, Getenv: os.Getenv}}
	o.file, o.seeds = "-", 2
	if err := planRun(t.Context(), env, o, nil, trainerOf); err != nil {
		t.Fatal(err)
	}
	return out.String(), says.String()
}

func TestPlanOfSetup(t *testing.T) {
	t.Parallel()
	text, _ := planText(t, planOptions{format: "table", engines: "1..8", depths: "1,2", price: 2, priceSet: true})
	for _, want := range []string{
		"SIMULATED from -: 3 engines of profile a100-80gb",
		"ENGINES DEPTH STEP s ± STARVED STALE MAX BUSY SLOTS IN tok/s OUT tok/s GPU-h/step $/step $/Mtok PREFILL s",
		"→* 5 1 20 0",
		"Recommended: 5 engines at depth 1: 20 s and $0.0556 a step; 4 engines would take 25 s and $0.0556; " +
			"a sixth buys nothing for $2.00/h.",
		"Note: times are those of a demo at 10 times the speed of its hardware",
		"millrace simulate -f - --set buffer.depth=1 --set fleet.engines=5",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	text, _ := planText(t, planOptions{format: "json", target: 40 * time.Second, targetSet: true})
	var document planned
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	p := document.Plan
	if !document.Simulated || !p.Complete || len(p.Cells) != 8*4 || p.Recommendations[0].Setting.Engines != 3 {
		t.Errorf("%d cells, %+v", len(p.Cells), p.Recommendations)
	}
}

// A plan that takes long says so when its first setting is known, and then how far it is.
func TestPlanProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var says bytes.Buffer
		p := newPlanProgress(environment{cli.Deps{Stderr: &says, Getenv: os.Getenv}}, plan.Request{Seeds: 5})
		time.Sleep(2 * time.Second)
		p.tell(plan.Progress{Done: 1, Of: 96, Left: 3 * time.Minute})
		time.Sleep(18 * time.Second)
		p.tell(plan.Progress{Done: 10, Of: 96, Left: 172 * time.Second})
		time.Sleep(3 * time.Minute)
		p.tell(plan.Progress{Done: 96, Of: 96})
		p.End()
		want := "96 settings, 5 seeds each, will take about 3m0s; Ctrl-C shows what is known by then, fewer --seeds or a " +
			"smaller grid take less\nplanning [##----------------------] 10 of 96 settings; about 2m52s left\n"
		if says.String() != want {
			t.Errorf("says %q, want %q", says.String(), want)
		}
	})
}

// Ctrl-C ends a plan and shows what is known.
func TestInterruptedPlan(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	slow := func(ctx context.Context, s sim.Setup, o sim.Options) (sim.Result, error) {
		if calls++; calls == 40 {
			cancel()
		}
		return trainerOf(ctx, s, o)
	}
	var out, says bytes.Buffer
	env := environment{cli.Deps{Stdin: strings.NewReader(demoSpec), Stdout: &out, Stderr: &says, Getenv: os.Getenv}}
	o := planOptions{file: "-", seeds: 2, format: "table", workers: 1}
	err := planRun(ctx, env, o, nil, slow)
	if exitCode(err) != 130 || !strings.Contains(out.String(), "Interrupted") ||
		!strings.Contains(out.String(), "Recommended") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
