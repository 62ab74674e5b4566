package buffer_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
)

// waits is what a trainer waits for so that no group becomes too stale. Two groups make a step.
var waits = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a group in play with no version to spare is waited for": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.launch(0, 0)
		f.ready(0, 1)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 2)
		f.notReady(0, "step 0 of run demo waits for 1 groups in play that would become too stale without it: 2 are ready, "+
			"0 in flight, 1 queued; ask again")
		f.ok(f.Start(f.ctx, ref(0)))
		f.notReady(0, "step 0 of run demo waits for 1 groups in play that would become too stale without it: 2 are ready, "+
			"1 in flight, 0 queued; ask again")
		f.ready(0, 0)
		expect(t, "batch", seqs(f.claim(0, 0)), []int{0, 1})
	},
	"one that is given up is not waited for any more": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.launch(0, 0)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 1, 2)
		f.notReady(0, "")
		f.ok(f.Discard(f.ctx, ref(0), "hung"))
		expect(t, "batch", seqs(f.claim(0, 0)), []int{1, 2})
	},
	"the oldest versions come first, then the oldest groups": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.ready(0, 4)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 2, 1, 3)
		expect(t, "batch", seqs(f.claim(0, 0)), []int{1, 4})
	},
	"the oldest versions come first, then those that were ready first": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		s.Buffer.OnStale, s.Buffer.Order = runspec.WaitStale, runspec.FinishOrder
		f := open(t, rdb, s)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 3, 1)
		f.ready(0, 4)
		expect(t, "batch", seqs(f.claim(0, 0)), []int{3, 4})
	},
	"groups that later batches could not take are waited for in time": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 2)
		f.launch(0, 0, 1, 2, 3)
		f.ready(0, 4, 5)
		f.claim(0, 0) // leaves four groups for two batches
		f.complete(0, 0)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 6, 7)
		f.notReady(1, "step 1 of run demo waits for 2 groups in play that would become too stale without it: 2 are ready, "+
			"0 in flight, 4 queued; ask again")
		f.ready(0, 3)
		f.notReady(1, "")
		f.ready(0, 1)
		expect(t, "batch", seqs(f.claim(1, 0)), []int{1, 3})
	},
	"a step that is claimed ahead counts as published": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.launch(0, 0)
		f.ready(0, 1, 2)
		f.claim(0, 0)
		f.ready(1, 3, 4) // the version that step 0 is about to make
		f.notReady(1, "step 1 of run demo waits for 1 groups in play that would become too stale without it: 2 are ready, "+
			"0 in flight, 1 queued; ask again")
		f.ready(0, 0)
		expect(t, "batch", seqs(f.claim(1, 0)), []int{0, 3})
	},
	"no more is waited for than fits": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 0)
		f.launch(0, 0, 1)
		f.ready(0, 2, 3)
		expect(t, "batch", seqs(f.claim(0, 0)), []int{2, 3})
	},
	"what is too stale all the same is trained on": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.ready(0, 0)
		f.launch(0, 1)
		f.ok(f.SetVersion(f.ctx, run, 5, 0))
		f.ready(5, 2)
		f.notReady(0, "")
		c, err := f.CommitGroup(f.ctx, group(1, 0))
		f.ok(err)
		expect(t, "late commit", c, buffer.Commit{})
		expect(t, "batch", seqs(f.claim(0, 0)), []int{0, 1})
		r, err := f.Step(f.ctx, run, 0)
		f.ok(err)
		expect(t, "staleness", []int64{r.Service.StalenessMin, r.Service.StalenessMax}, []int64{5, 5})
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Ready: 1, Claimed: 2})
	},
	"a batch that was given is given again without waiting": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 0)
		f.ready(0, 0, 1)
		first := asJSON(t, f.claim(0, 0))
		f.launch(0, 2)
		expect(t, "again", asJSON(t, f.claim(0, 0)), first)
	},
	"the prefill is waited for as well": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		s.Buffer.OnStale, s.Buffer.Prefill = runspec.WaitStale, runspec.PrefillFull // depth 2
		f := open(t, rdb, s)
		f.ready(0, 0, 1)
		f.notReady(0, "step 0 of run demo needs 4 groups: 2 are ready, 0 in flight, 0 queued; ask again")
		f.ready(0, 2, 3)
		f.claim(0, 0)
	},
	"a group whose version was lost with Redis is waited for": func(t *testing.T, rdb redis.UniversalClient) {
		f := waiting(t, rdb, 1)
		f.ok(f.SetVersion(f.ctx, run, 7, 0))
		f.ok(f.SaveCheckpoint(f.ctx, game(0, 0), 1, checkpoint(2, "a")))
		f.ready(7, 1, 2)
		f.notReady(0, "")
		f.launch(7, 0) // it tells its version as soon as a worker takes it up
		f.claim(0, 0)
	},
	"a run may begin or cease to wait": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		f := open(t, rdb, s)
		f.launch(0, 0)
		f.ready(0, 1)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 2, 3)
		s.Buffer.OnStale = runspec.WaitStale
		f.ok(f.SetLimits(f.ctx, run, s.Buffer, 9, 0))
		f.notReady(0, "")
		f.ok(f.SetVersion(f.ctx, run, 2, 0))
		expect(t, "dropped", f.counts().Dropped, 0)
		s.Buffer.OnStale = runspec.DropStale
		f.ok(f.SetLimits(f.ctx, run, s.Buffer, 9, 0))
		expect(t, "heard", f.stale(), []string{"demo/1 stale"})
		expect(t, "batch", seqs(f.claim(0, 0)), []int{2, 3})
		s.Buffer.OnStale = "hope"
		f.refused(f.SetLimits(f.ctx, run, s.Buffer, 9, 0), rollout.Invalid)
	},
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	conform(t, waits)
}

// waiting is a run of which the trainer waits for what would become too stale.
func waiting(t *testing.T, rdb redis.UniversalClient, maxStaleness int64) *fixture {
	t.Helper()
	s := spec(2, 9)
	s.Buffer.OnStale, s.Buffer.MaxStaleness = runspec.WaitStale, maxStaleness
	return open(t, rdb, s)
}

// notReady claims a step in vain; text, unless it is empty, is what the trainer is told.
func (f *fixture) notReady(step int, text string) {
	f.t.Helper()
	_, err := f.Claim(f.ctx, run, rollout.Step(step), 0, buffer.Share{})
	f.refused(err, rollout.NotReady)
	if text != "" {
		expect(f.t, "text", err.Error(), text)
	}
}
