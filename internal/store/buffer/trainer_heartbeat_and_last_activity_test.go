package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// TestAsked: a trainer is known to wait until its batch is granted, or until another process takes over.
func TestAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		see := func(step rollout.Step, waits bool) {
			t.Helper()
			a, err := f.TrainerActivity(f.ctx, run)
			f.ok(err)
			if a.Step != step || a.Waiting(a.Last) != waits {
				t.Fatalf("%+v, want step %d, waits %v", a, step, waits)
			}
		}
		ask := func(step, generation int) {
			t.Helper()
			_, err := f.Claim(f.ctx, run, rollout.Step(step), rollout.TrainerGeneration(generation), buffer.Share{})
			f.refused(err, rollout.NotReady)
		}
		see(0, false)
		ask(0, 0)
		ask(0, 0)
		see(0, true)
		f.ready(0, 0)
		f.claim(0, 0)
		see(1, false)
		ask(1, 0)
		see(1, true)
		_, _, err := f.Attach(f.ctx, run, nil)
		f.ok(err)
		see(1, false)
	})
}

// TestATrainersLastWord: why a trainer ends is kept until a trainer is heard of again, and one that was replaced has no
// say.
func TestATrainersLastWord(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		kept := func(want string) {
			t.Helper()
			if a, err := f.TrainerActivity(f.ctx, run); err != nil || a.Ended != want {
				t.Fatalf("%+v, %v, want it to have ended for %q", a, err, want)
			}
		}
		f.ok(f.Heartbeat(f.ctx, run, 0, ""))
		kept("")
		f.ok(f.Heartbeat(f.ctx, run, 0, "loss nan"))
		kept("loss nan")
		f.ok(f.Heartbeat(f.ctx, run, 0, ""))
		kept("")
		f.ok(f.Heartbeat(f.ctx, run, 0, "loss nan"))
		_, _, err := f.Attach(f.ctx, run, nil)
		f.ok(err)
		kept("")
		f.refused(f.Heartbeat(f.ctx, run, 0, "loss nan"), rollout.Fenced)
		kept("")
	})
}
