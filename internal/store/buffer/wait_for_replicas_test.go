package buffer_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// TestGrantsWaitForReplicas: what no replica has is not answered, and nothing is lost by asking again.
func TestGrantsWaitForReplicas(t *testing.T) {
	t.Parallel()
	start := func(args ...string) (at int, addr string, stop func()) {
		at = redistest.Port(t)
		addr, stop = redistest.Start(t, t.TempDir(), at, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
		return at, addr, stop
	}
	master, addr, stop := start()
	defer stop()
	f := open(t, redistest.Client(t, addr, 0), spec(1, 9))
	f.ready(0, 0, 1)
	f.Store = buffer.New(f.rdb, buffer.Options{WaitReplicas: 1, WaitFor: 50 * time.Millisecond})
	_, _, err := f.Attach(f.ctx, run, nil)
	f.refused(err, rollout.Unavailable)
	if _, told := f.Unwitnessed(run); told {
		t.Error("the workflow is told of what a replica may not have")
	}

	_, _, stopReplica := start("--replicaof", "127.0.0.1 "+strconv.Itoa(master))
	generation := rollout.TrainerGeneration(1)
	for {
		if _, err = f.Claim(f.ctx, run, 0, generation, buffer.Share{}); err == nil {
			break // it was granted by an earlier claim, and the replica has it now
		}
		if buffer.Unconfirmed(err) { // a first replica begins another history of replication
			f.confirm()
			continue
		}
		f.refused(err, rollout.Unavailable)
	}
	if mark, told := f.Unwitnessed(run); !told || mark.Granted != 1 {
		t.Errorf("the workflow is to be told %+v, %t", mark, told)
	}
	f.ok(f.Witnessed(f.ctx, run, runstatus.Mark{Era: 1, Serial: 2}))
	stopReplica()
	_, err = f.Claim(f.ctx, run, 0, generation, buffer.Share{})
	if buffer.Unconfirmed(err) { // the replica came between that claim's script and its wait
		f.confirm()
		_, err = f.Claim(f.ctx, run, 0, generation, buffer.Share{})
	}
	f.ok(err) // the workflow has it, which is as good
	_, _, err = f.Complete(f.ctx, run, 0, generation, report(0), steprecord.FleetView{})
	f.refused(err, rollout.Unavailable)
}
