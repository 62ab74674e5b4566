package worker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/control/replaycheck"
)

// Two workers of the version before are replaced one by one while a run is fed, the second one by kill -9. The run
// goes on, is never asked for anything that it did not do, and does as the version after does once its history has
// been cut.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	first, second := d.worker(before), d.worker(before)
	d.until("a worker to be announced", func() error { // how a run is begun depends on who will drive it
		workers, err := d.conns.Workers.Alive(d.ctx)
		if err == nil && len(workers) == 0 {
			err = errors.New("there is none")
		}
		return err
	})
	d.train(16)
	d.reach(2)
	d.worker()
	d.reach(3)
	first.stop()
	d.reach(5)
	d.worker()
	second.kill()
	d.completed(16)
	failed, patches := d.failures()
	t.Logf("%d tasks did not replay with the version before; the run's last execution has the patches %v", failed, patches)
	if oldBinary() == "" && !slices.Contains(patches, nextPatch) {
		t.Errorf("the run has not taken up the patch of the version after: %v", patches)
	}
}

// Both versions share the work of a run that the one after began, in the worst way: neither remembers anything, so
// that each task of the run may go to either. The version before cannot replay what the other one did; those tasks
// are given out again, and nothing is lost.
func TestBothVersionsAtOnce(t *testing.T) {
	t.Parallel()
	d := newDeployment(t)
	d.worker(forgetful)
	d.train(6)
	d.reach(1)
	d.worker(before, careless, forgetful)
	d.completed(6)
	failed, _ := d.failures()
	t.Logf("%d tasks did not replay with the version before", failed)
}

// A worker that cannot go on with what is running ends before it takes any of it, and says why.
func TestVersionThatCannotGoOnRefuses(t *testing.T) {
	t.Parallel()
	if oldBinary() != "" {
		t.Skip("the version before may not know how to refuse")
	}
	d := newDeployment(t)
	d.worker()
	d.train(6)
	d.reach(1)
	look := replaycheck.Check{Temporal: d.temporal, Queue: d.conns.Control.Deployment.Queues().Control,
		Log: d.conns.Log}
	d.until("the run to be listed", func() error {
		if _, err := look.Run(d.ctx); !errors.Is(err, replaycheck.ErrIncompatible) {
			return errors.New("this version could go on with all that is")
		}
		return nil
	})
	late := d.worker(before)
	if err := <-late.done; err == nil {
		t.Error("it ended without an error")
	}
	late.done = nil
	for _, want := range []string{replaycheck.ErrIncompatible.Error(), "millrace/run/rolling", "docs/upgrades.md"} {
		if !strings.Contains(late.out.String(), want) {
			t.Errorf("it says nothing of %q:\n%s", want, late.out)
		}
	}
	d.completed(6)
	if failed, _ := d.failures(); failed != 0 {
		t.Errorf("%d tasks were failed by a worker that had refused", failed)
	}
}
