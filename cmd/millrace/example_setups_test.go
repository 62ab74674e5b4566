package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/cli"

	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/simulate/setup"
)

// setupClaims is what the comments of the example setups say, one line for each command that they name; the file alone
// is the empty command.
var setupClaims = map[string][]setupClaim{
	"seed-004-a100.yaml": {
		{"", diagnosis.CapacityBound, "150 150 150 - 295 295 295", 3},
		{"--set fleet.engines=4", diagnosis.ComputeBound, "150 150 150 150 150 150", -1},
		{"--set buffer.depth=4", diagnosis.CapacityBound, "150 150 150 150 150 150 150 - 295", 7},
		{"--set fleet.max_num_seqs=0 --set fleet.max_in_flight=0", diagnosis.ComputeBound, "150 150 150 150 150", -1},
	},
	"latency-bound.yaml": {
		{"", diagnosis.LatencyBound, "60 60 335 - 335 60 335", 2},
		{"--set buffer.depth=7 --set buffer.max_staleness=7", diagnosis.ComputeBound, "60 60 60 60 60 60 60 60", -1},
		{"--set fleet.engines=8", diagnosis.LatencyBound, "60 60 330 - 330 60 330", 2},
	},
	"engine-lost.yaml": {
		{"", diagnosis.CapacityBound, "150 150 150 150 150 150 150 150 150 - 194 194", 10},
		{`--set "fleet.events=[{step: 4, kind: lose, engine: 1}, {step: 10, kind: add}]"`, diagnosis.ComputeBound,
			"150 150 150 150 150 150 150 150 150 - 194 194 150 150", -1},
		{"--set fleet.engines=6", diagnosis.ComputeBound, "150 150 150 150 150 150 150 150 150 150", -1},
	},
	"cold-engines.yaml": {
		{"", diagnosis.ComputeBound, "150 256 150 150 150", -1},
		{"--set buffer.prefill=full", diagnosis.ComputeBound, "150 150 150 150 150", -1},
		{"--set fleet.engines=8 --set fleet.events=[]", diagnosis.ComputeBound, "150 150 150 150 150", -1},
	},
	"diplomacy-a100.yaml": {
		{"", diagnosis.ComputeBound, "58 58 58 58 58 58 58 58 58 58", -1},
		{"--set group.samples=12", diagnosis.CapacityBound, "58 58 58 58 58 - 77 83", 5},
		{"--set group.samples=12 --set fleet.engines=2", diagnosis.ComputeBound, "58 58 58 58 58 58 58 58 58 58", -1},
		{"--steps 4 --set fleet.max_num_seqs=1 --set fleet.max_in_flight=1", diagnosis.CapacityBound, "58 58 1743 2467", 2},
	},
	"checkpoints.yaml": {
		{"", diagnosis.ComputeBound, "90 90 150 90 90 150 90 90 150", -1},
		{"--set trainer.checkpoint_every=10", diagnosis.ComputeBound, "90 90 90 90 90 90 90 90 90 150 90", -1},
		{"--set trainer.checkpoint=15s", diagnosis.ComputeBound, "90 90 105 90 90 105", -1},
	},
}

// setupClaim is what one simulation shows: its regime, its first steps in seconds ("-" is any), the step from which on
// it is starved, -1 for none.
type setupClaim struct {
	flags   string
	regime  diagnosis.RegimeKind
	steps   string
	starved int
}

// TestExampleSetupsShowWhatTheySay simulates every example setup, and every command of its comment.
func TestExampleSetupsShowWhatTheySay(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("simulations are seconds of arithmetic in one goroutine each")
	}
	files, err := filepath.Glob("../../config/setups/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no setups:", err)
	}
	play := setup.Simulator() // which plays the games of bots once for all
	for _, file := range files {
		name := filepath.Base(file)
		claims, known := setupClaims[name]
		if !known {
			t.Errorf("%s claims nothing that is checked", name)
		}
		if got, want := commandsIn(t, file), flagsOf(claims); !slices.Equal(got, want) {
			t.Errorf("%s names %q, and %q is checked", name, got, want)
		}
		for _, claim := range claims {
			t.Run(name+" "+claim.flags, func(t *testing.T) {
				t.Parallel()
				claim.check(t, file, play)
			})
		}
	}
}

func (c setupClaim) check(t *testing.T, file string, play simulator) {
	var stdout, stderr bytes.Buffer
	cmd := newSimulateCommand(environment{cli.Deps{Stdout: &stdout, Stderr: &stderr, Getenv: os.Getenv}}, play)
	cmd.SetArgs(append([]string{"-f", file, "-o", "json"}, words(c.flags)...))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Assumed []json.RawMessage
		Records []steprecord.StepRecord
		Report  diagnosis.Report
	}
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Assumed) > 0 {
		t.Errorf("assumed: %s", got.Assumed)
	}
	if got.Report.Regime.Kind != c.regime {
		t.Errorf("the diagnosis says %s, want %s", got.Report.Regime.Kind, c.regime)
	}
	for i, want := range strings.Fields(c.steps) {
		var sec float64
		if err := json.Unmarshal([]byte(want), &sec); err != nil {
			continue // any
		}
		if is := got.Records[i].StepSec(); math.Abs(is-sec) > 0.05*sec {
			t.Errorf("step %d takes %.1f s, want %s", i, is, want)
		}
	}
	starved := -1
	if s := got.Report.Starvation; s != nil && got.Report.Verdict == diagnosis.VerdictProblem {
		starved = int(s.Since)
	}
	if starved != c.starved {
		t.Errorf("starved from step %d on, want %d", starved, c.starved)
	}
}

func flagsOf(claims []setupClaim) []string {
	var flags []string
	for _, c := range claims {
		if c.flags != "" {
			flags = append(flags, c.flags)
		}
	}
	return flags
}

// commandsIn is the flags of the commands in a setup's comment.
func commandsIn(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.QuoteMeta("config/setups/" + filepath.Base(file))
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^#   millrace simulate -f `+name+` (.*)$`).FindAllStringSubmatch(string(text),
		-1) {
		flags = append(flags, m[1])
	}
	return flags
}

// words splits a command line as a shell does, as far as these have quotes.
func words(line string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}
