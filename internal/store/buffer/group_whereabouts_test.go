package buffer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// TestWhyNoGameIsKept: there is one reason, and it is told.
func TestWhyNoGameIsKept(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 6))
		f.Store = buffer.New(rdb, buffer.Options{RetainSteps: 1})
		why := func(seq int, says string) {
			t.Helper()
			_, err := f.Game(f.ctx, rollout.EpisodeRef{GroupRef: ref(seq), Sample: 1})
			f.refused(err, rollout.NotRetained)
			if !strings.HasSuffix(err.Error(), says) {
				t.Errorf("group %d: %q, want %q", seq, err, says)
			}
		}
		f.ready(0, 0, 1, 2)
		for step := range 2 {
			f.claim(step, 0)
			_, _, err := f.Complete(f.ctx, run, rollout.Step(step), 0, steprecord.StepReport{}, steprecord.FleetView{})
			f.ok(err)
		}
		f.queue(3, 4)
		f.ok(f.Start(f.ctx, ref(4)))
		f.queue(5, 5)
		f.ok(f.Discard(f.ctx, ref(5), "timeout"))
		why(0, "group 0 was trained on in step 0; a retain_steps of 2 or more would keep it")
		why(1, "group 1 is completed without it")
		why(2, "group 2 is ready without it")
		why(3, "group 3 is queued, none of its games has begun")
		why(4, "it has not finished its first phase yet")
		why(5, "group 5 was given up: timeout")
		why(6, "group 6 was never begun; the run has launched those up to 5")
		why(1_000_000_000, "was never begun; the run has launched those up to 5")
		f.ok(f.Delete(f.ctx, run))
		_, err := f.Game(f.ctx, rollout.EpisodeRef{GroupRef: ref(0)})
		f.refused(err, rollout.NoSuchRun)
	})
}

// Launches that have not arrived are known by what has arrived around them, however the groups that did have left
// since.
func TestLaunchesThatHaveNotArrived(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 6))
		unheard := func(before rollout.GroupSeq, want ...rollout.GroupSeq) {
			t.Helper()
			got, err := f.Unheard(f.ctx, run, before)
			f.ok(err)
			if !slices.Equal(got, want) {
				t.Errorf("before %d: %v, want %v", before, got, want)
			}
		}
		unheard(0)
		unheard(2, 0, 1)
		f.ready(0, 0, 2)
		f.claim(0, 0)
		_, _, err := f.Complete(f.ctx, run, 0, 0, steprecord.StepReport{}, steprecord.FleetView{})
		f.ok(err)
		f.ok(f.Discard(f.ctx, ref(4), "timeout"))
		f.queue(5, 5)
		unheard(0, 1, 3)
		unheard(8, 1, 3, 6, 7)
	})
}
