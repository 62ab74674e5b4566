package crashtest_test

import (
	"os"
	"testing"
	"time"

	"github.com/millrace/millrace/trials/crashtest"
)

// The short form of `make chaos-scaling`: engines are bought and given back while everything is killed, every worker in
// the middle of a purchase. Nothing is lost or duplicated, and in the end there are exactly as many engines as are
// wanted.
func TestEnginesAreBoughtOnceUnderFaults(t *testing.T) {
	if os.Getenv("MILLRACE_SCALING_FAULTS") == "" {
		t.Skip("takes minutes; make test-scaling-faults runs it")
	}
	cfg := crashtest.Config{
		Deck: crashtest.Scaling, Seed: 4, Duration: 60 * time.Second, Every: 4 * time.Second, Patience: 4,
		Dir: t.TempDir(), Log: t.Output(),
		Only: []crashtest.Kind{
			crashtest.ScaleUp, crashtest.ScaleDown, crashtest.KillWhileStarting, crashtest.KillReady, crashtest.KillDraining,
			crashtest.KillWorker, crashtest.StaleRedis,
		},
		Run: crashtest.RunConfig{
			Steps: 16, GroupsPerStep: 3, Samples: 2, Depth: 2, Train: 500 * time.Millisecond, Checkpoint: 3,
			Shape: crashtest.NoZeroVariance,
		},
	}
	programs(t, &cfg)
	untilEnough(t, cfg, func(r crashtest.Report) bool {
		kinds := r.Summary.ByKind
		return kinds["scale-up"] > 0 && kinds["scale-down"] > 0 && kinds["kill-while-starting"] > 0 && r.Turns > 0
	}, crashtest.ScaleUp, crashtest.ScaleDown, crashtest.KillWhileStarting)
}
