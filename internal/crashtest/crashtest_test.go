package crashtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/crashtest"
)

// The short form of `make chaos`: one run of the whole service with a fault every two and a half seconds, by a fixed seed.
func TestNothingIsLostUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("kills real processes for most of a minute; run without -short")
	}
	cfg := crashtest.Config{
		Seed: 116, Duration: 20 * time.Second, Every: 2500 * time.Millisecond, Dir: t.TempDir(), Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 9, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Checkpoint: 3, Shape: crashtest.NoFlat,
		},
	}
	var err error
	if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH (Debian: apt-get install redis-server)")
	}
	cfg.Temporal = temporal(t)
	cfg.Millrace = build(t)

	report, err := crashtest.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if s := report.Summary; s.Faults < 6 || s.Steps < cfg.Run.Steps || report.Turns == 0 || report.Claims == 0 ||
		report.Shares == 0 || report.Records == 0 || report.Refused == 0 || report.Rewound == 0 {
		t.Errorf("too little happened to prove anything: %+v", report)
	}
}

// Redis is emptied in the middle of a run: the run restores what it knows, the fleet comes back, the trainer attaches anew and
// nothing that was trained on is given again.
func TestRunGoesOnAfterRedisIsEmptied(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole service; run without -short")
	}
	cfg := crashtest.Config{
		Seed: 1, Duration: 5 * time.Minute, Lose: true, Dir: t.TempDir(), Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 8, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Shape: crashtest.Plain,
		},
	}
	var err error
	if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH (Debian: apt-get install redis-server)")
	}
	cfg.Temporal = temporal(t)
	cfg.Millrace = build(t)
	report, err := crashtest.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Summary.Faults != 1 || report.Summary.Steps != cfg.Run.Steps {
		t.Errorf("%+v", report.Summary)
	}
}

func temporal(t *testing.T) string {
	t.Helper()
	for _, candidate := range []string{os.Getenv("MILLRACE_TEMPORAL"), "temporal", "../../.bin/temporal"} {
		if path, err := exec.LookPath(candidate); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	t.Skip("needs the temporal CLI: `make temporal` builds it")
	return ""
}

// build makes the binary under test.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "millrace")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/millrace")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build millrace: %v\n%s", err, out)
	}
	return path
}
