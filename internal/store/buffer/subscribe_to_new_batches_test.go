package buffer_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/buffer"
)

// Whoever follows the changes hears of everything that may make a batch ready, of the run that it is of, whichever
// process has done it; and that it hears nothing any more.
func TestFollowChanges(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		other := spec(1, 9)
		other.Name = "other@2"
		f.ok(f.Open(f.ctx, other))
		ctx, stop := context.WithCancel(f.ctx)
		began, heard, ended := make(chan bool, 9), make(chan rollout.RunName, 99), make(chan error, 1)
		follower := buffer.New(rdb, buffer.Options{})
		go func() {
			ended <- follower.Follow(ctx, func() { began <- true }, func(run rollout.RunName) { heard <- run })
		}()
		wait(t, "began", began)
		f.queue(0, 3)
		for _, change := range []struct {
			name string
			make func()
		}{
			{"a group is ready", func() { f.ready(0, 0) }},
			{"one is dropped", func() { f.ok(f.Discard(f.ctx, ref(1), "x")) }},
			{"a step is granted", func() { f.claim(0, 0) }},
			{"it is completed", func() { f.complete(0, 0) }},
			{"a version serves", func() { f.ok(f.SetVersion(f.ctx, run, 1, 0)) }},
			{"limits", func() { f.ok(f.SetLimits(f.ctx, run, spec(2, 9).Buffer, 9, 0)) }},
			{"a trainer", func() { f.attach(-1) }},
			{"the end", func() {
				f.ok(f.SaveStatus(f.ctx, runstatus.RunStatus{Spec: spec(1, 9), State: runstatus.RunStopped}, 0))
			}},
			{"a deletion", func() { f.ok(f.Delete(f.ctx, run)) }},
		} {
			change.make()
			expect(t, change.name, wait(t, change.name, heard), run)
			if len(heard) > 0 {
				t.Errorf("%s: heard more than once", change.name)
			}
		}
		f.ok(f.SetVersion(f.ctx, other.Name, 1, 0))
		expect(t, "another run", wait(t, "another run", heard), other.Name)
		stop()
		if err := wait(t, "end", ended); err == nil {
			t.Error("it ended without a reason")
		}
	})
}

func wait[T any](t *testing.T, what string, from chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(time.Minute):
		t.Fatalf("%s: nothing in a minute", what)
	}
	panic("unreachable")
}
