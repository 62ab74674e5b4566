package setup_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/setup"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// TestASetupPlaysTheGamesOfARecord reads the record's file, and says which file cannot be read.
func TestASetupPlaysTheGamesOfARecord(t *testing.T) {
	t.Parallel()
	read := func(file string) (sim.Setup, error) {
		s, _, err := setup.Read("setup.yaml", []byte(`
name: recorded
model: m
steps: 3
environment: {kind: diplomacy, horizon_years: 2}
group: {samples: 6}
buffer: {depth: 2, groups_per_step: 8}
workload: {recorded: {file: `+file+`}}
`), nil)
		return s, err
	}
	played, err := read("../sim/calibration/testdata/seed-004/base.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	result, err := setup.Simulator()(t.Context(), played, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const requests = 1470 // of the record's first eight groups
	if got := result.Input.Records[0].Trainer.Metrics["sequences"]; got != requests {
		t.Errorf("step 0 has %g turns, want %d", got, requests)
	}
	for file, want := range map[string]string{
		"no-such.json":       "setup.yaml:8:23: workload.recorded.file: open no-such.json",
		"read_setup_test.go": "setup.yaml:8:23: workload.recorded.file: read_setup_test.go:1: invalid character",
	} {
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
