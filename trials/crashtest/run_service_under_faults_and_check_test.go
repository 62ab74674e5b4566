package crashtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/trials/crashtest"
)

// The short form of `make chaos`: one run of the whole service with a fault every two and a half seconds, by a fixed
// seed.
func TestNothingIsLostUnderFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("kills real processes for most of a minute; run without -short")
	}
	t.Parallel()
	cfg := crashtest.Config{
		Seed: 8539, Duration: 20 * time.Second, Every: 2500 * time.Millisecond, Patience: 3, Dir: t.TempDir(),
		Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 9, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Checkpoint: 3,
			Shape: crashtest.NoZeroVariance,
		},
	}
	programs(t, &cfg)

	enough := func(r crashtest.Report) bool {
		return r.Summary.Faults >= 6 && r.Summary.Steps >= cfg.Run.Steps && r.Turns > 0 && r.Claims > 0 && r.Shares > 0 &&
			r.Records > 0 && r.Refused > 0 && r.Rewound > 0
	}
	untilEnough(t, cfg, enough, crashtest.ReplaceTrainer, crashtest.KillTrainer)
}

// untilEnough plays a schedule that deals these kinds, and others while too little happened to prove anything: a fault
// may find nothing to break. What was promised must hold each time.
func untilEnough(t *testing.T, cfg crashtest.Config, enough func(crashtest.Report) bool, kinds ...crashtest.Kind) {
	t.Helper()
	const tries = 3
	dir := cfg.Dir
	for try := range tries {
		for !cfg.Deals(kinds...) {
			cfg.Seed++
		}
		cfg.Dir = filepath.Join(dir, strconv.Itoa(try))
		if err := os.Mkdir(cfg.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		report, err := crashtest.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Err(); err != nil {
			t.Fatal(err)
		}
		if enough(report) {
			return
		}
		t.Logf("too little happened to prove anything: %+v", report)
		cfg.Seed++
	}
	t.Errorf("too little happened in %d schedules to prove anything", tries)
}

// The short form of `make chaos-names`: what may happen to workflows, versions and whole deployments, in a name's
// first life and in its second one. With the default of two retained steps.
func TestNamesKeepTheirWeightsAndEndsTheirNames(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole service for most of a minute; run without -short")
	}
	t.Parallel()
	cfg := crashtest.Config{
		Deck: crashtest.Names, Lives: 2, Seed: 163, Duration: 13 * time.Second, Every: time.Second, Patience: 4,
		Dir: t.TempDir(), Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 16, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 300 * time.Millisecond, Checkpoint: 2,
			Shape: crashtest.Plain,
		},
	}
	programs(t, &cfg)
	untilEnough(t, cfg, func(r crashtest.Report) bool {
		return r.Summary.Faults >= 6 && r.Summary.ByKind["return-name"] > 0 && r.Summary.Steps >= cfg.Run.Steps && r.Turns > 0
	})
}

// Redis is emptied in the middle of a run: the run restores what it knows, the fleet comes back, the trainer attaches
// again and nothing that was trained on is given again.
func TestRunGoesOnAfterRedisIsEmptied(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole service; run without -short")
	}
	t.Parallel()
	cfg := crashtest.Config{
		Seed: 1, Duration: 5 * time.Minute, Lose: true, Patience: 3, Dir: t.TempDir(), Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 8, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Shape: crashtest.Plain,
		},
	}
	programs(t, &cfg)
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

// Redis is killed again and again, and comes back with what its disk held a second or more before: every rollback is
// noticed and reported, no step is fed two batches unless its batch was lost, and no trajectory is trained on twice.
func TestRedisComesBackOlderAgainAndAgain(t *testing.T) {
	redisFaults(t)
	cfg := crashtest.Config{
		Only: []crashtest.Kind{crashtest.StaleRedis, crashtest.StaleRedis, crashtest.KillServer}, Seed: 12,
		Duration: 20 * time.Second, Every: 1500 * time.Millisecond, Dir: t.TempDir(), Log: t.Output(),
		Run: crashtest.RunConfig{
			Steps: 12, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 400 * time.Millisecond, Checkpoint: 3,
			Shape: crashtest.Plain,
		},
	}
	programs(t, &cfg)
	untilEnough(t, cfg, func(r crashtest.Report) bool {
		return r.Summary.RollbacksDetected >= 2 && r.Summary.Steps >= cfg.Run.Steps
	})
}

// Redis' replica falls behind and is promoted, beside a master that wakes up again; servers that know nothing come up
// meanwhile.
func TestFailoversToAReplicaThatLags(t *testing.T) {
	redisFaults(t)
	cfg := crashtest.Config{
		Layout: crashtest.Sentinel, Only: []crashtest.Kind{crashtest.Failover, crashtest.KillServer}, Seed: 3,
		Duration: 15 * time.Second, Every: 2 * time.Second, Dir: t.TempDir(), Log: t.Output(), Patience: 2,
		Run: crashtest.RunConfig{
			Steps: 16, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Checkpoint: 3,
			Shape: crashtest.Plain,
		},
	}
	programs(t, &cfg)
	untilEnough(t, cfg, func(r crashtest.Report) bool {
		return r.Summary.RollbacksDetected >= 1 && r.Summary.Steps >= cfg.Run.Steps
	})
}

// In a Cluster the slots of the account and of games move, masters die and lag behind, logs are torn.
func TestSlotsMoveAndMastersDie(t *testing.T) {
	redisFaults(t)
	cfg := crashtest.Config{
		Layout: crashtest.Cluster, Seed: 641, Duration: 40 * time.Second, Every: 3 * time.Second, Dir: t.TempDir(),
		Only: []crashtest.Kind{crashtest.MoveSlot, crashtest.MoveSlot, crashtest.Failover, crashtest.KillRedis,
			crashtest.TornRedis, crashtest.KillWorker},
		Log: t.Output(), Patience: 2,
		Run: crashtest.RunConfig{
			Steps: 16, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Checkpoint: 3,
			Shape: crashtest.Plain,
		},
	}
	programs(t, &cfg)
	untilEnough(t, cfg, func(r crashtest.Report) bool {
		return r.Summary.RollbacksDetected >= 1 && r.Summary.ByKind["move-slot"] > 0 && r.Summary.Steps >= cfg.Run.Steps
	})
}

// redisFaults skips a test that takes a minute and is about Redis alone, unless `make test-redis-faults` runs it.
func redisFaults(t *testing.T) {
	t.Helper()
	if os.Getenv("MILLRACE_REDIS_FAULTS") == "" {
		t.Skip("takes a minute: make test-redis-faults runs it; stale-redis is among the faults of every chaos, too")
	}
}

// programs finds and builds what a schedule starts.
func programs(t *testing.T, cfg *crashtest.Config) {
	t.Helper()
	var err error
	if cfg.Redis, err = exec.LookPath("redis-server"); err != nil {
		t.Skip("needs redis-server on the PATH (Debian: apt-get install redis-server)")
	}
	cfg.Temporal = temporal(t)
	cfg.Millrace, cfg.Lab = build(t, "../..", "./cmd/millrace"), build(t, "..", "./cmd/millrace-lab")
}

func temporal(t *testing.T) string {
	t.Helper()
	path, err := temporalcli.Find(os.Getenv, "../..")
	if err != nil {
		t.Skip("needs the Temporal CLI:", err)
	}
	return path
}

// build makes a binary of the module in a folder.
func build(t *testing.T, module, command string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(command))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, command)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	return path
}
