package worker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// A run with many more games than the worker has slots, which never end because no engine serves its misspelt model,
// does not keep the games of a run that is started after it from being played.
func TestRunWithAMisspeltModelLeavesSlotsToOthers(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.cfg.Worker.Games = 6
	d.inProcess()
	misspelt := d.spec("misspelt", "Qwen/Qwen2.5-7B-Instrukt", 2)
	misspelt.Group = runspec.GroupSpec{Samples: 16, MinSamples: 16}
	misspelt.Buffer.Depth, misspelt.Buffer.GroupsPerStep = 2, 2
	d.start(misspelt)
	d.until("its games to take slots", func() error {
		progress, err := d.conns.Buffer.Account(d.ctx, misspelt.Name)
		if err == nil && len(progress.Queued) < 4 {
			err = errNotYet
		}
		return err
	})
	d.train(3)
	d.completed(3)
}

// A worker that is told to end hands its games over: none of them counts that as a failure, and none waits for missed
// heartbeats.
func TestStoppedWorkerHandsItsGamesOver(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.write("engines", d.engine(0.001)+"\n") // no game comes to an end
	first := d.worker()
	spec := d.spec(d.run, servedModel, 1)
	spec.Timeouts.Heartbeat = rollout.Duration(time.Minute) // nobody waits as long
	spec.Group = runspec.GroupSpec{Samples: 2, MinSamples: 2}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 1, 2
	d.start(spec)
	begun := func(attempt int) func() error {
		return func() error {
			groups, err := d.conns.Buffer.Progress(d.ctx, spec.Name)
			if err != nil {
				return err
			}
			n := 0
			for _, g := range groups {
				for _, game := range g.Games {
					if game.Attempt >= attempt {
						n++
					}
				}
			}
			if n < 4 {
				return fmt.Errorf("%d of 4 games: %+v", n, groups)
			}
			return nil
		}
	}
	d.until("the games to be begun", begun(1))
	first.stop()
	d.worker()
	d.until("the games to be begun again", begun(2))
	facts, err := d.conns.Events.Facts(d.ctx, spec.Name, "0-0", 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		e, err := f.Event()
		if err != nil {
			t.Fatal(err)
		}
		if failed, ok := e.Body.(telemetry.EpisodeFailed); ok {
			t.Errorf("%s is reported as failed: %+v", e.Key, failed)
		}
	}
}

var errNotYet = errors.New("not yet")
