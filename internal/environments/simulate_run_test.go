package environments_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/environments"
	"github.com/millrace/millrace/internal/sim"
)

// TestASetupPlaysTheGamesOfARecord reads the record's file, and says which file cannot be read.
func TestASetupPlaysTheGamesOfARecord(t *testing.T) {
	t.Parallel()
	play := environments.Simulator()
	setup := func(file string) sim.Setup {
		s, _, err := environments.ReadSetup("setup.yaml", []byte(`
name: recorded
model: m
steps: 3
environment: {kind: diplomacy, horizon_years: 2}
group: {samples: 6}
buffer: {depth: 2, groups_per_step: 8}
workload: {recorded: {file: `+file+`}}
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const file = "../sim/calibration/testdata/seed-004/base.json.gz"
	result, err := play(t.Context(), setup(file), sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const requests = 1470 // of the record's first eight groups
	if got := result.Input.Records[0].Trainer.Metrics["sequences"]; got != requests {
		t.Errorf("step 0 has %g turns, want %d", got, requests)
	}
	if _, err := play(t.Context(), setup("no-such.json"), sim.Options{}); err == nil ||
		!strings.Contains(err.Error(), "workload.recorded.file: open no-such.json") {
		t.Errorf("got %v", err)
	}
	if _, err := play(t.Context(), setup("simulate_run_test.go"), sim.Options{}); err == nil ||
		!strings.Contains(err.Error(), "simulate_run_test.go:1: invalid character") {
		t.Errorf("got %v", err)
	}
}
