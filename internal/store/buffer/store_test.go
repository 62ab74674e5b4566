package buffer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/buffer/readcompact"
)

// groupsAndSteps is what becomes of groups and batches, on every Redis.
var groupsAndSteps = map[string]func(t *testing.T, rdb redis.UniversalClient){
	"a group goes from queued to completed": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		f.queue(0, 2)
		want := steprecord.BufferCounts{Queued: 3}
		expect(t, "queued", f.counts(), want)
		f.ok(f.Start(f.ctx, ref(0)))
		f.ok(f.Start(f.ctx, ref(0)))
		expect(t, "started", f.counts(), steprecord.BufferCounts{Queued: 2, InFlight: 1})
		_, err := f.CommitGroup(f.ctx, group(0, 0))
		f.ok(err)
		expect(t, "committed", f.counts(), steprecord.BufferCounts{Queued: 2, Ready: 1})
		f.claim(0, 0)
		expect(t, "claimed", f.counts(), steprecord.BufferCounts{Queued: 2, Claimed: 1})
		f.complete(0, 0)
		expect(t, "completed", f.counts(), steprecord.BufferCounts{Queued: 2, Completed: 1})
		f.ok(f.Discard(f.ctx, ref(1), "cancelled"))
		f.ok(f.Discard(f.ctx, ref(1), "cancelled"))
		expect(t, "dropped", f.counts(), steprecord.BufferCounts{Queued: 1, Completed: 1, Dropped: 1})
	},
	"a batch is the oldest groups by launch": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 3))
		f.ready(0, 10, 9, 2, 3)
		expect(t, "first", seqs(f.claim(0, 0)), []int{2, 3})
		expect(t, "second", seqs(f.claim(1, 0)), []int{9, 10})
	},
	"a batch may be the groups that were ready first": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		s.Buffer.Order = runspec.FinishOrder
		f := open(t, rdb, s)
		f.ready(0, 10, 9, 2, 3)
		a, err := f.Account(f.ctx, run)
		f.ok(err)
		expect(t, "the account is by launch", a.Ready, []rollout.GroupSeq{2, 3, 9, 10})
		expect(t, "first", seqs(f.claim(0, 0)), []int{9, 10})
		f.complete(0, 0)
		f.ready(0, 1)
		s.Buffer.Order = runspec.StartOrder // changed, it is another order of what is ready now
		f.ok(f.SetLimits(f.ctx, run, s.Buffer, 9, 0))
		expect(t, "second", seqs(f.claim(1, 0)), []int{1, 2})
		s.Buffer.Order = "alphabet"
		f.refused(f.SetLimits(f.ctx, run, s.Buffer, 9, 0), rollout.Invalid)
	},
	"the same claim gives the same bytes": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 3))
		f.ready(0, 0, 1, 2, 3)
		first := asJSON(t, f.claim(0, 0))
		f.ok(f.SetVersion(f.ctx, run, 7, 0))
		expect(t, "again", asJSON(t, f.claim(0, 0)), first)
		f.complete(0, 0)
		expect(t, "completed", asJSON(t, f.claim(0, 0)), first)
	},
	"a batch is what was committed": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 3))
		f.ready(0, 0, 1)
		want := &rollout.Batch{Run: run, Groups: []rollout.Group{*group(0, 0), *group(1, 0)}}
		expect(t, "batch", asJSON(t, f.claim(0, 0)), asJSON(t, want))
	},
	"at most one step is claimed ahead": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0, 1, 2, 3)
		claim := func(step int) error {
			_, err := f.Claim(f.ctx, run, rollout.Step(step), 0, buffer.Share{})
			return err
		}
		f.refused(claim(1), rollout.OutOfOrder)
		f.refused(claim(-1), rollout.Invalid)
		f.ok(claim(0))
		f.ok(claim(1))
		f.refused(claim(2), rollout.OutOfOrder)
		f.refused(claim(3), rollout.OutOfOrder)
		f.complete(0, 0)
		f.ok(claim(2))
		f.refused(claim(9), rollout.RunOver)
	},
	"a claim waits for enough groups": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 3))
		f.ready(0, 0)
		f.queue(1, 2)
		f.ok(f.Start(f.ctx, ref(1)))
		_, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{})
		f.refused(err, rollout.NotReady)
		expect(t, "text", err.Error(), "step 0 of run demo needs 2 groups: 1 are ready, 1 in flight, 1 queued; ask again")
		_, err = f.Step(f.ctx, run, 0)
		f.refused(err, rollout.NoSuchStep)
	},
	"the first claim waits for the prefill": func(t *testing.T, rdb redis.UniversalClient) {
		full := spec(2, 3)
		full.Buffer.Prefill = runspec.PrefillFull // depth 2
		f := open(t, rdb, full)
		f.ready(0, 0, 1)
		_, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{})
		f.refused(err, rollout.NotReady)
		expect(t, "text", err.Error(), "step 0 of run demo needs 4 groups: 2 are ready, 0 in flight, 0 queued; ask again")
		f.ready(0, 2, 3)
		f.claim(0, 0)
		f.complete(0, 0)
		f.claim(1, 0) // later claims need their own batch alone
	},
	"a prefill that does not fit is given up": func(t *testing.T, rdb redis.UniversalClient) {
		full := spec(2, 3)
		full.Buffer.Prefill = runspec.PrefillFull // depth 2
		full.Buffer.MaxBytes = int64(3 * size(t, group(0, 0)))
		f := open(t, rdb, full)
		f.ready(0, 0, 1)
		f.notReady(0, "") // a third group would fit
		full.Buffer.MaxBytes = int64(2 * size(t, group(0, 0)))
		f.ok(f.SetLimits(f.ctx, run, full.Buffer, 3, 0))
		f.queue(2, 2)
		f.notReady(0, "") // one is played that may still make the prefill fuller
		f.ok(f.Discard(f.ctx, ref(2), "cancelled"))
		expect(t, "batch", seqs(f.claim(0, 0)), []int{0, 1})
	},
	"the account tells what a group takes": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		mean := func() int64 {
			a, err := f.Account(f.ctx, run)
			f.ok(err)
			return a.GroupBytes
		}
		expect(t, "before any", mean(), 0)
		f.ready(0, 0, 1)
		want := int64(size(t, group(0, 0))+size(t, group(1, 0))) / 2
		expect(t, "mean", mean(), want)
		for step := range 2 {
			f.claim(step, 0)
			f.complete(step, 0)
		}
		f.queue(2, 2)
		expect(t, "mean of groups that have left", mean(), want)
	},
	"a run shorter than the depth is prefilled with all it needs": func(t *testing.T, rdb redis.UniversalClient) {
		full := spec(2, 1)
		full.Buffer.Prefill = runspec.PrefillFull
		f := open(t, rdb, full)
		f.ready(0, 0, 1)
		f.claim(0, 0)
	},
	"the record tells both views of a step": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 3))
		f.ready(0, 0, 1)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 2)
		f.queue(3, 3)
		f.claim(0, 0)
		_, err := f.Claim(f.ctx, run, 1, 0, buffer.Share{}) // first asked: too few
		f.refused(err, rollout.NotReady)
		f.ready(1, 3)
		f.claim(1, 0)
		record, err := f.Step(f.ctx, run, 1)
		f.ok(err)
		view := record.Service
		if record.Done || view.FirstAskedAt.IsZero() || !view.FirstAskedAt.Before(view.GrantedAt) {
			t.Errorf("first asked at %v, granted at %v, done %v", view.FirstAskedAt, view.GrantedAt, record.Done)
		}
		f.complete(0, 0)
		record = f.complete(1, 0)
		view = record.Service
		view.AtClaim.Bytes = 0
		expect(t, "at claim", view.AtClaim, steprecord.BufferCounts{Ready: 2, Claimed: 2})
		expect(t, "ready depth", view.ReadyDepth, 1.0)
		expect(t, "trajectories", view.Trajectories, 8)
		expect(t, "groups", view.Groups, []steprecord.GroupView{steprecord.ViewOf(group(2, 1)), steprecord.ViewOf(group(3,
			1))})
		expect(t, "limits", []int{view.Depth, view.GroupsPerStep}, []int{2, 2})
		expect(t, "trainer", record.Trainer, report(1))
		expect(t, "fleet", view.Fleet.Engines, 2.0)
		expect(t, "done", record.Done, true)

		zero, err := f.Step(f.ctx, run, 0)
		f.ok(err)
		expect(t, "staleness", []int64{zero.Service.StalenessMin, zero.Service.StalenessMax}, []int64{1, 1})
		all, err := f.Steps(f.ctx, run, 0, 0)
		f.ok(err)
		expect(t, "steps", all, []steprecord.StepRecord{zero, record})
		last, err := f.Steps(f.ctx, run, 1, 5)
		f.ok(err)
		expect(t, "steps from 1", last, []steprecord.StepRecord{record})
	},
	"records keep their groups as long as they are asked for": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		f.Store = buffer.New(rdb, buffer.Options{DetailSteps: 2})
		for step := range 4 {
			f.ready(0, 2*step, 2*step+1)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		records, err := f.Steps(f.ctx, run, 0, 0)
		f.ok(err)
		for k, want := range []int{0, 0, 2, 2} {
			expect(t, fmt.Sprintf("groups of step %d", k), len(records[k].Service.Groups), want)
			expect(t, "trajectories", records[k].Service.Trajectories, 8)
			results := records[k].Service.Results
			expect(t, "results that stay", []int{len(results), results[0].Groups, results[0].Lengths}, []int{1, 2, 4})
		}
	},
	"a record tells of the groups dropped until then": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		f.ready(0, 0)
		f.claim(0, 0)
		f.queue(1, 3)
		f.ok(f.Discard(f.ctx, ref(1), rollout.CodeStale))
		f.ok(f.Discard(f.ctx, ref(2), rollout.CodeZeroVariance))
		expect(t, "before", len(f.complete(0, 0).Service.DroppedSoFar), 0)
		f.ready(0, 3)
		f.claim(1, 0)
		expect(t, "then", f.complete(1, 0).Service.DroppedSoFar, map[rollout.Code]int64{rollout.CodeStale: 1,
			rollout.CodeZeroVariance: 1})
	},
	"a record is acknowledged once": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 3))
		f.ready(0, 0, 1)
		complete := func(step int, r steprecord.StepReport) (bool, error) {
			_, fresh, err := f.Complete(f.ctx, run, rollout.Step(step), 0, r, steprecord.FleetView{})
			return fresh, err
		}
		_, err := complete(0, report(0))
		f.refused(err, rollout.NotClaimed)
		f.claim(0, 0)
		f.claim(1, 0)
		_, err = complete(1, report(1))
		f.refused(err, rollout.OutOfOrder)
		fresh, err := complete(0, report(0))
		f.ok(err)
		expect(t, "fresh", fresh, true)
		fresh, err = complete(0, report(0))
		f.ok(err)
		expect(t, "fresh again", fresh, false)
		_, err = complete(0, report(5))
		f.refused(err, rollout.Conflict)
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Claimed: 1, Completed: 1})
	},
	"stale groups are dropped": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(1, 1)
		f.queue(2, 2)
		f.ok(f.SetVersion(f.ctx, run, 2, 0))
		expect(t, "heard", f.stale(), []string{"demo/0 stale"})
		c, err := f.CommitGroup(f.ctx, group(2, 0))
		f.ok(err)
		expect(t, "late commit", c, buffer.Commit{Dropped: "stale"})
		c, err = f.CommitGroup(f.ctx, group(2, 0))
		f.ok(err)
		expect(t, "late commit again", c, buffer.Commit{Duplicate: true, Dropped: "stale"})
		f.ok(f.SetVersion(f.ctx, run, 1, 0)) // an older version comes late: no change
		expect(t, "batch", seqs(f.claim(0, 0)), []int{1})
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Claimed: 1, Dropped: 2})
		a, err := f.Account(f.ctx, run)
		f.ok(err)
		expect(t, "drops", a.Drops, map[rollout.Code]int64{"stale": 2})
	},
	"stale groups are kept if the run says so": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		s.Buffer.OnStale = runspec.KeepStale
		f := open(t, rdb, s)
		f.ready(0, 0)
		f.ok(f.SetVersion(f.ctx, run, 5, 0))
		f.ready(5, 1)
		f.claim(0, 0)
		r, err := f.Step(f.ctx, run, 0)
		f.ok(err)
		v := r.Service
		expect(t, "staleness", []float64{float64(v.StalenessMin), float64(v.StalenessMax), v.StalenessMean},
			[]float64{0, 5, 2.5})
	},
	"staleness is gathered in flight, then in the buffer": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		s.Buffer.MaxStaleness = 9
		f := open(t, rdb, s)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		f.ready(0, 0) // 1 behind when it was ready
		f.ok(f.SetVersion(f.ctx, run, 3, 0))
		f.ready(0, 1) // 3 behind
		f.ok(f.SetVersion(f.ctx, run, 4, 0))
		f.claim(0, 0)
		parts := func(v steprecord.ServiceView) []float64 {
			return []float64{v.StalenessMean, v.StalenessInFlightMean, v.StalenessInBufferMean}
		}
		r, err := f.Step(f.ctx, run, 0)
		f.ok(err)
		expect(t, "mean, in flight, in buffer", parts(r.Service), []float64{4, 2, 2})
		f.ready(5, 2, 3) // committed before their version was told
		f.ok(f.SetVersion(f.ctx, run, 5, 0))
		f.claim(1, 0)
		r, err = f.Step(f.ctx, run, 1)
		f.ok(err)
		expect(t, "of groups ahead of their time", parts(r.Service), []float64{0, 0, 0})
	},
	"groups without variance are counted in the record": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		f.Store = buffer.New(rdb, buffer.Options{DetailSteps: 1})
		flat := group(0, 0)
		for i := range flat.Trajectories {
			flat.Trajectories[i].Reward, flat.Trajectories[i].Advantage = 1, 0
		}
		_, err := f.CommitGroup(f.ctx, flat)
		f.ok(err)
		f.ready(0, 1, 2, 3)
		for step := range 2 { // the first loses its groups to the second
			f.claim(step, 0)
			f.complete(step, 0)
		}
		records, err := f.Steps(f.ctx, run, 0, 0)
		f.ok(err)
		for step, want := range []int{1, 0} {
			expect(t, fmt.Sprintf("zero-variance groups of step %d", step), records[step].Service.ZeroVarianceGroups, want)
		}
	},
	"a changed limit takes effect at once": func(t *testing.T, rdb redis.UniversalClient) {
		s := spec(2, 9)
		f := open(t, rdb, s)
		f.ready(0, 0, 1, 2)
		f.ok(f.SetVersion(f.ctx, run, 1, 0))
		s.Buffer.GroupsPerStep = 3
		f.ok(f.SetLimits(f.ctx, run, s.Buffer, 1, 0))
		expect(t, "batch of three", seqs(f.claim(0, 0)), []int{0, 1, 2})
		_, err := f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.RunOver)
		f.ready(0, 3)
		s.Buffer.MaxStaleness = 0
		f.ok(f.SetLimits(f.ctx, run, s.Buffer, 9, 0))
		expect(t, "heard", f.stale(), []string{"demo/3 stale"})
		s.Buffer.MaxBytes = -1
		f.refused(f.SetLimits(f.ctx, run, s.Buffer, 9, 0), rollout.Invalid)
		s.Buffer.GroupsPerStep, s.Buffer.MaxBytes = 0, 0
		f.refused(f.SetLimits(f.ctx, run, s.Buffer, 9, 0), rollout.Invalid)
	},
	"a group is committed once": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0)
		again := func(stage string) {
			t.Helper()
			// The games are gone after the first commit: what a retry holds must not matter.
			c, err := f.CommitGroup(f.ctx, &rollout.Group{Ref: ref(0)})
			f.ok(err)
			expect(t, stage, c, buffer.Commit{Duplicate: true})
		}
		again("ready")
		f.claim(0, 0)
		again("claimed")
		f.complete(0, 0)
		again("completed")
		for step := 1; step < 4; step++ {
			f.ready(0, step)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		again("trained and let go")
		f.refused(f.Discard(f.ctx, ref(0), "late"), rollout.Conflict)
		f.ok(f.Start(f.ctx, ref(0)))
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Completed: 4})
	},
	"a dropped group cannot come back": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		f.ok(f.Discard(f.ctx, ref(0), "cancelled"))
		f.ok(f.Discard(f.ctx, ref(1), "cancelled")) // before it was ever heard of
		for seq := range 2 {
			_, err := f.Queue(f.ctx, ref(seq), []byte("late"), 0, start)
			f.refused(err, rollout.Fenced)
			f.refused(f.Start(f.ctx, ref(seq)), rollout.Fenced)
			c, err := f.CommitGroup(f.ctx, group(seq, 0))
			f.ok(err)
			expect(t, "commit", c, buffer.Commit{Duplicate: true, Dropped: "cancelled"})
		}
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Dropped: 2})
		f.refused(f.Discard(f.ctx, ref(3), ""), rollout.Invalid)
	},
	"a group is released while it is queued": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 3)
		f.ok(f.Start(f.ctx, ref(1)))
		f.ready(0, 2)
		f.ok(f.Discard(f.ctx, ref(3), "cancelled"))
		for range 2 { // the second time as after a lost answer
			for seq, want := range []bool{true, false, false, false, false} { // 4 was never heard of
				released, err := f.Release(f.ctx, ref(seq), "shrunk")
				f.ok(err)
				expect(t, fmt.Sprintf("group %d released", seq), released, want)
			}
		}
		expect(t, "counts", f.counts(), steprecord.BufferCounts{InFlight: 1, Ready: 1, Dropped: 2})
		f.queue(4, 4) // it can still come
		f.refused(f.Start(f.ctx, ref(0)), rollout.Fenced)
		_, err := f.Release(f.ctx, ref(4), "")
		f.refused(err, rollout.Invalid)
	},
	"a group that was trained on, and is not retained, is not played again": func(t *testing.T,
		rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		for step := range 5 {
			f.ready(0, step)
			f.claim(step, 0)
			f.complete(step, 0)
		}
		_, err := f.Queue(f.ctx, ref(0), []byte("late"), 0, start)
		f.refused(err, rollout.Fenced)
		n, err := rdb.Exists(f.ctx, "millrace:{demo}:group:0").Result()
		f.ok(err)
		expect(t, "keys of the group", n, 0)
	},
	"bad rows are refused": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		for i, spoil := range badRows {
			g := group(i, 3)
			spoil(g)
			f.queue(i, i)
			_, err := f.CommitGroup(f.ctx, g)
			f.refused(err, rollout.Invalid)
		}
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Queued: int64(len(badRows))})
	},
	"the first scenario wins": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.queue(0, 0)
		for _, state := range []string{"queued", "ready"} {
			got, err := f.Queue(f.ctx, ref(0), []byte("another"), 0, start)
			f.ok(err)
			expect(t, "scenario of a group that is "+state, string(got), "scenario 0")
			if state == "queued" {
				f.ready(0, 0)
			}
		}
	},
	"a group may wait for its scenario": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		for _, step := range []struct{ offer, want string }{{"", ""}, {"played", "played"}, {"", "played"},
			{"played twice", "played"}} {
			got, err := f.Queue(f.ctx, ref(0), []byte(step.offer), 0, start)
			f.ok(err)
			expect(t, fmt.Sprintf("scenario after %q", step.offer), string(got), step.want)
		}
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Queued: 1})
	},
	"a wild group number is refused": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		_, err := f.Queue(f.ctx, ref(1<<31), nil, 0, start)
		f.refused(err, rollout.Invalid)
		f.refused(f.Discard(f.ctx, ref(1<<31), "x"), rollout.Invalid)
		f.refused(f.Start(f.ctx, ref(-1)), rollout.Invalid)
	},
	"ranks share a batch": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(3, 9))
		f.ready(0, 0, 1, 2)
		whole := ids(f.claim(0, 0))
		for _, world := range []int{1, 2, 5, 12, 20} {
			var parts []string
			for rank := range world {
				b, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{Rank: rank, World: world})
				f.ok(err)
				part := ids(b)
				if len(part) != len(whole)/world && len(part) != len(whole)/world+1 {
					t.Errorf("rank %d of %d has %d of %d trajectories", rank, world, len(part), len(whole))
				}
				parts = append(parts, part...)
			}
			expect(t, fmt.Sprintf("world %d", world), parts, whole)
		}
		_, err := f.Claim(f.ctx, run, 0, 0, buffer.Share{Rank: 2, World: 2})
		f.refused(err, rollout.Invalid)
		_, err = f.Claim(f.ctx, run, 0, 0, buffer.Share{Rank: 1})
		f.refused(err, rollout.Invalid)
	},
	"the compact form of a raw batch holds the batch": func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(3, 9))
		f.ready(0, 0, 1, 2)
		for _, share := range []buffer.Share{{}, {Rank: 1, World: 5}, {Rank: 19, World: 24}} {
			raw, err := f.ClaimRaw(f.ctx, run, 0, 0, share)
			f.ok(err)
			batch, err := raw.Batch()
			f.ok(err)
			var compact bytes.Buffer
			f.ok(raw.WriteCompact(&compact))
			back, err := readcompact.Batch(&compact)
			f.ok(err)
			expect(t, "compact", asJSON(t, back), asJSON(t, batch))
		}
	},
}

func TestGroupsAndSteps(t *testing.T) {
	t.Parallel()
	conform(t, groupsAndSteps)
}

func conform(t *testing.T, suite map[string]func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, test)
		})
	}
}

func expect[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func seqs(b *rollout.Batch) []int {
	var out []int
	for i := range b.Groups {
		out = append(out, int(b.Groups[i].Ref.Seq))
	}
	return out
}

func ids(b *rollout.Batch) []string {
	var out []string
	for i := range b.Groups {
		for j := range b.Groups[i].Trajectories {
			out = append(out, b.Groups[i].Trajectories[j].ID)
		}
	}
	return out
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
