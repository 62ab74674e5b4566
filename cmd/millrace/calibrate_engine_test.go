package main

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// commanded is one command line in this process, and what it said.
func commanded(args ...string) (code int, out, said string) {
	var stdout, stderr strings.Builder
	code = run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestCalibrate: a live engine's profile is written, and read by whoever simulates. How exact it is, package
// engineprofile tests by the engine's own clock.
func TestCalibrate(t *testing.T) {
	t.Parallel()
	sim := enginesim.DefaultConfig()
	sim.Speed = 5
	engine, err := enginesim.New(sim)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = engine.Run(ctx) }()
	server := httptest.NewServer(engine.Handler())
	defer server.Close()

	file := filepath.Join(t.TempDir(), "mine.json")
	// A busy machine spoils a measurement, which is refused then.
	code, out, said := 1, "", "took no time"
	for attempt := 0; attempt < 5 && code == 1 && strings.Contains(said, "took no time"); attempt++ {
		code, out, said = commanded("engine", "calibrate", server.URL, "-f", file, "--rounds", "1", "--max-batch",
			"16", "--longest-prompt", "2048")
	}
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	for _, says := range []string{"settings, 1 rounds, about", "round 1 of 1", "wrote " + file, "FITTED ms",
		"step.token_us"} {
		if !strings.Contains(out+said, says) {
			t.Errorf("%s%s; want it to say %q", out, said, says)
		}
	}
	p, err := enginemodel.LoadProfile(file)
	if err != nil || p.Name != "mine" || p.Step.FixedMS.Kind != enginemodel.Measured ||
		!strings.Contains(p.Step.FixedMS.Source, server.URL) {
		t.Errorf("%v: %+v", err, p)
	}
	if code, _, said := commanded("engine", "calibrate", server.URL, "-f", file); code != 2 ||
		!strings.Contains(said, "is there already") {
		t.Errorf("the file is written over: %d %s", code, said)
	}
	if code, out, _ := commanded("simulate", "profiles", file); code != 0 || !strings.Contains(out, "step.token_us") {
		t.Errorf("profile show: %d %s", code, out)
	}
}

// TestCalibrateRefuses: what cannot be measured or written is told before minutes are spent.
func TestCalibrateRefuses(t *testing.T) {
	t.Parallel()
	busy := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(busy, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const nobody = "http://127.0.0.1:1"
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nobody there", []string{nobody}, 1, "engine http://127.0.0.1:1: ask which models it serves"},
		{"no address", []string{"gpu-box"}, 2, "want http://host:port"},
		{"an unknown GPU", []string{nobody, "--gpu", "a100"}, 2, "there is no hardware profile"},
		{"a folder that is not there", []string{nobody, "-f", filepath.Join(busy, "x.json")}, 1,
			"write profile"},
		{"another kind of file", []string{nobody, "-f", "x.yaml"}, 2, "a profile is a .json file"},
		{"an impossible batch", []string{nobody, "--max-batch", "2"}, 2, "max batch: 2 is not from 4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, _, said := commanded(append([]string{"engine", "calibrate"}, tt.args...)...)
			if code == 0 || tt.code == 2 && code != 2 || !strings.Contains(said, tt.says) {
				t.Errorf("exit code %d, %s; want %d and %q", code, said, tt.code, tt.says)
			}
		})
	}
}

func TestProfileCommands(t *testing.T) {
	t.Parallel()
	if code, out, _ := commanded("simulate", "profiles"); code != 0 || !strings.Contains(out, "a100-80gb") ||
		!strings.Contains(out, "h100-80gb") {
		t.Errorf("profile list: %d %s", code, out)
	}
	if code, out, _ := commanded("simulate", "profiles", "h100-80gb"); code != 0 || !strings.Contains(out, "scaled") ||
		!strings.Contains(out, "AGAINST NVIDIA H100") {
		t.Errorf("profile show: %d %s", code, out)
	}
	if code, _, said := commanded("simulate", "profiles", "h100"); code == 0 ||
		!strings.Contains(said, "there are a100-40gb") {
		t.Errorf("profile show h100: %d %s", code, said)
	}
	if code, _, said := commanded("engine", "simulate", "--profile", "h1000-80gb"); code != 2 ||
		!strings.Contains(said, "did you mean h100-80gb?") {
		t.Errorf("engine simulate: %d %s", code, said)
	}
}
