package workflows_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// wants reports whether the fleet is to keep an adapter.
func (f *memoryFleet) wants(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.wanted, name)
}

// deserted has the fleet's Redis, and not its own, go back to before its version was published: it tells the fleet
// again.
func deserted(w *liveWorld) {
	w.start()
	w.claim(0)
	_, err := w.control.Publish(w.ctx, w.spec.Name, 1, "/adapters/1", 0)
	w.must("publish", err)
	w.complete(0)
	w.fleet.goBack()
	w.must("tell", w.control.BufferChanged(w.ctx, w.spec.Name, runstatus.Mark{}))
	w.until("the fleet to be told", func() error {
		if name := rollout.PolicyVersion(1).Adapter(w.spec.Name); !w.fleet.wants(name) {
			return fmt.Errorf("%s is not wanted", name)
		}
		return nil
	})
	for step := rollout.Step(1); step < 3; step++ {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// The Redis that holds the fleet goes back alone, as one node of a Cluster does: nothing of the run's account is lost,
// and yet the fleet is told again of the version that serves and of the fixed policy, and only then.
func TestFleetThatWentBackIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	frozen := w.write("frozen", "frozen")
	w.spec.Policies = []runspec.FixedPolicy{{Name: "frozen", Path: frozen}}
	w.at(1*time.Minute, func() { w.train(0) })
	w.at(90*time.Second, func() { w.publish(1, w.write("1", "one"), w.serves) })
	told := 0
	w.at(2*time.Minute, func() {
		w.fleet.goBack()
		told = w.fleet.doubted
	})
	w.at(2*time.Minute+20*time.Second, func() {
		for _, name := range []string{"demo-v1", "demo:frozen"} {
			if !w.fleet.wants(name) {
				t.Errorf("%s is not wanted again", name)
			}
		}
	})
	w.at(3*time.Minute, func() {
		if n := w.fleet.doubted - told; n != 1 {
			t.Errorf("the fleet was told %d times, want once", n)
		}
		w.train(1)
	})
	w.at(4*time.Minute, func() { w.train(2) })
	w.at(5*time.Minute, func() { w.train(3) })
	w.start()
	if status := w.result(); status.State != runstatus.RunCompleted {
		t.Errorf("ended %s: %s", status.State, status.Reason)
	}
}
