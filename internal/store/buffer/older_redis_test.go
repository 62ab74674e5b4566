package buffer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
)

// TestRedisComesBackOlder takes a Redis that keeps snapshots only from one of them to a kill -9 and back. No call that
// could do harm is answered before the run has repaired the account, in the processes that knew more and in those that
// knew nothing; then no trainer of the time before is served, what was granted is granted again or lost, and nothing
// that was trained on is given to another step.
func TestRedisComesBackOlder(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), redistest.Port(t)
	addr, stop := redistest.Start(t, dir, at, "--appendonly", "no")
	defer func() { stop() }()
	f := open(t, redistest.Client(t, addr, 0), spec(2, 9))
	first, _ := f.attach(-1)
	f.ready(0, 0, 1, 2, 3)
	f.claim(0, first)
	f.complete(0, first)
	f.queue(4, 5)
	f.ok(f.Start(f.ctx, ref(4)))
	f.ok(f.rdb.Save(f.ctx).Err())

	second, _ := f.attach(-1)
	survives := asJSON(t, f.claim(1, second)) // of groups 2 and 3, which the snapshot has
	f.complete(1, second)
	f.ready(0, 4, 5)
	gone := f.claim(2, second) // of groups 4 and 5, which it has not
	mark, known := f.Unwitnessed(run)
	expect(t, "known to the workflow before a trainer is told", known && len(mark.Grants) == 3, true)
	stop()
	_, stop = redistest.Start(t, dir, at, "--appendonly", "no")

	other := *f // a process that knew nothing
	other.Store = buffer.New(f.rdb, buffer.Options{})
	for _, f := range []*fixture{f, &other} {
		for _, generation := range []int{first, second} {
			_, err := f.Claim(f.ctx, run, 1, rollout.TrainerGeneration(generation), buffer.Share{})
			expect(t, "claim waits", buffer.Unconfirmed(err) && rollout.Refused(err, rollout.NotReady), true)
			_, _, err = f.Complete(f.ctx, run, 1, rollout.TrainerGeneration(generation), report(1), steprecord.FleetView{})
			expect(t, "record waits", buffer.Unconfirmed(err) && rollout.Refused(err, rollout.Unavailable), true)
		}
		_, _, err := f.Attach(f.ctx, run, nil)
		expect(t, "trainer waits", buffer.Unconfirmed(err), true)
		_, err = f.CommitGroup(f.ctx, group(4, 0))
		expect(t, "group waits", buffer.Unconfirmed(err), true)
	}

	repair := buffer.Repair{Era: 2, Mark: mark, NextGroup: 8, Playing: []rollout.GroupSeq{6, 7}}
	back, err := f.Repair(f.ctx, run, repair)
	f.ok(err)
	expect(t, "steps found", []rollout.Step{back.FoundGranted, back.FoundCompleted}, []rollout.Step{1, 1})
	expect(t, "batches restored and lost", []any{back.Restored, back.LostBatches}, []any{1, []rollout.Step{2}})
	again, err := f.Repair(f.ctx, run, repair)
	f.ok(err)
	again.At = back.At
	expect(t, "repaired again", again.String(), back.String())

	for _, f := range []*fixture{f, &other} {
		for _, generation := range []int{first, second} {
			_, err := f.Claim(f.ctx, run, 1, rollout.TrainerGeneration(generation), buffer.Share{})
			f.refused(err, rollout.Fenced)
		}
	}
	third, next := f.attach(-1)
	expect(t, "next step", next, 2) // step 1 stays completed
	expect(t, "batch of step 1", asJSON(t, f.claim(1, third)), survives)
	records, err := f.AllSteps(f.ctx, run, 0, 0)
	f.ok(err)
	expect(t, "records lost", []bool{records[0].LostRecord, records[1].LostRecord, records[2].LostBatch},
		[]bool{false, true, true})
	_, err = f.Claim(f.ctx, run, 2, rollout.TrainerGeneration(third), buffer.Share{})
	f.refused(err, rollout.BatchLost)
	_, err = f.Batch(f.ctx, run, 2)
	f.refused(err, rollout.BatchLost)

	refills := func() int {
		a, err := f.Account(f.ctx, run)
		f.ok(err)
		return a.Refills
	}
	expect(t, "batches to be formed again while the trainer may have learned from them", refills(), 0)
	fourth, _ := f.attach(2) // it goes back behind the lost step
	expect(t, "batches to be formed again", refills(), 1)
	f.ready(0, 6, 7)
	c, err := f.CommitGroup(f.ctx, group(4, 0)) // of an attempt that was taken for dead
	f.ok(err)
	expect(t, "late group", c, buffer.Commit{Duplicate: true, Dropped: rollout.CodeLost})
	expect(t, "groups of step 2, formed again", seqs(f.claim(2, fourth)), []int{6, 7})
	for _, g := range gone.Groups {
		expect(t, "in the batch that was lost", g.Ref.Seq == 4 || g.Ref.Seq == 5, true)
	}
	expect(t, "batches to be formed again", refills(), 0)
	f.complete(2, fourth)
	c2 := f.counts()
	expect(t, "counts", c2, steprecord.BufferCounts{Completed: 6, Dropped: 2})
}

// TestRedisComesBackEmpty has Redis forget a run: the process that knows of it tells its trainer to wait until the run
// has opened it again, and nobody is told so of a run that was deleted.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	generation, _ := f.attach(-1)
	f.ready(0, 0)
	f.claim(0, generation)
	other := buffer.New(f.rdb, buffer.Options{}) // a process that knew nothing
	calls := func() []error {
		_, claimed := f.Claim(f.ctx, run, 0, rollout.TrainerGeneration(generation), buffer.Share{})
		_, _, attached := f.Attach(f.ctx, run, nil)
		_, _, completed := f.Complete(f.ctx, run, 0, rollout.TrainerGeneration(generation), report(0), steprecord.FleetView{})
		return []error{claimed, attached, completed}
	}
	f.ok(f.rdb.FlushDB(f.ctx).Err())
	for _, err := range calls() {
		expect(t, "waits", buffer.Unconfirmed(err), true)
	}
	for range 60 {
		_ = calls() // minutes go by
	}
	for _, err := range calls() {
		f.refused(err, rollout.NoSuchRun)
	}
	other.Know(run, runstatus.Mark{Era: 1}) // by the word of a workflow that may be over
	_, _, err := other.Attach(f.ctx, run, nil)
	f.refused(err, rollout.NoSuchRun)
	f.ok(other.Open(f.ctx, spec(1, 9)))
	f.ok(other.Delete(f.ctx, run))
	for _, err := range calls() {
		f.refused(err, rollout.NoSuchRun)
	}
}

// TestTheEndWaitsForARepair has a run end by its workflow's word, which has not seen yet that Redis came back older:
// one that is over would never be repaired.
func TestTheEndWaitsForARepair(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 1))
	generation, _ := f.attach(-1)
	f.ready(0, 0)
	f.claim(0, generation)
	status := runstatus.RunStatus{Spec: spec(1, 1), State: runstatus.RunRunning}
	f.ok(f.SaveStatus(f.ctx, status, 1))
	end := func() bool {
		t.Helper()
		status.State, status.NextStep = runstatus.RunCompleted, 1
		f.ok(f.SaveEnd(f.ctx, status, 2))
		saved, err := f.Status(f.ctx, run)
		f.ok(err)
		return saved.State.Over()
	}
	expect(t, "over before its last step", end(), false)
	f.complete(0, generation)
	f.ok(f.rdb.HSet(f.ctx, "millrace:{demo}:run", "confirmed", "another master").Err())
	expect(t, "over in a Redis that was replaced", end(), false)
	f.confirm()
	expect(t, "over", end(), true)
}

// TestRecordsOfTermsBefore has Redis come back from before a trainer went back to step 1: the record of step 1 that it
// has is not that trainer's, and that of step 0 is still the one of the trainer before.
func TestRecordsOfTermsBefore(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	first, _ := f.attach(-1)
	f.ready(0, 0, 1)
	for step := range 2 {
		f.claim(step, first)
		f.complete(step, first)
	}
	mark, _ := f.Unwitnessed(run)
	mark.Begin(rollout.TrainerGeneration(first), 0)
	mark.Generation++
	mark.Begin(mark.Generation, 1)
	_, err := f.Repair(f.ctx, run, buffer.Repair{Era: 2, Mark: mark, NextGroup: 2})
	f.ok(err)
	records, err := f.AllSteps(f.ctx, run, 0, 0)
	f.ok(err)
	expect(t, "records lost", []bool{records[0].LostRecord, records[1].LostRecord}, []bool{false, true})

	// The trainer that has the record brings it again, once; or goes back and makes another one.
	lost := func() bool {
		record, err := f.Step(f.ctx, run, 1)
		f.ok(err)
		return record.LostRecord
	}
	record := func(generation int, wall float64) error {
		_, _, err := f.Complete(f.ctx, run, 1, rollout.TrainerGeneration(generation), steprecord.StepReport{WallSec: wall},
			steprecord.FleetView{})
		return err
	}
	second, _ := f.attach(-1)
	f.ok(record(second, 5))
	expect(t, "lost when it was brought again", lost(), false)
	f.refused(record(second, 6), rollout.Conflict)
	f.ok(f.rdb.HSet(f.ctx, "millrace:{demo}:step:1", "lost_record", 1).Err())
	third, _ := f.attach(1)
	f.ok(record(third, 7))
	expect(t, "lost when the step was done again", lost(), false)
}

// TestAReadyGroupThatRedisHasLost: one key that was evicted, or deleted by hand, halts no run. Its group is dropped and
// told of as lost, and the claim is answered as if it had never been ready.
func TestAReadyGroupThatRedisHasLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(1, 9))
		f.ready(0, 0, 1)
		f.ok(rdb.Del(f.ctx, "millrace:{demo}:group:0").Err())
		expect(t, "batch", seqs(f.claim(0, 0)), []int{1})
		expect(t, "fact", f.body("demo/0/dropped", telemetry.GroupDropped{}),
			telemetry.Body(telemetry.GroupDropped{Seq: 0, Code: rollout.CodeLost}))
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Claimed: 1, Dropped: 1})

		f.ready(0, 2)
		f.ok(rdb.Del(f.ctx, "millrace:{demo}:group:2").Err())
		_, err := f.Claim(f.ctx, run, 1, 0, buffer.Share{})
		f.refused(err, rollout.NotReady)
	})
}

// TestAClaimedGroupThatRedisHasLost: a batch that is no longer whole is told as lost, again and again, until a trainer
// goes back: then another one is formed of other groups.
func TestAClaimedGroupThatRedisHasLost(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := open(t, rdb, spec(2, 9))
		f.ready(0, 0, 1, 2, 3)
		f.claim(0, 0)
		f.ok(rdb.Del(f.ctx, "millrace:{demo}:group:0").Err())
		_, err := f.Batch(f.ctx, run, 0)
		f.refused(err, rollout.BatchLost)
		for range 2 {
			_, err = f.Claim(f.ctx, run, 0, 0, buffer.Share{})
			f.refused(err, rollout.BatchLost)
		}
		expect(t, "counts", f.counts(), steprecord.BufferCounts{Ready: 2, Dropped: 2})
		generation, _ := f.attach(0)
		expect(t, "batch, formed again", seqs(f.claim(0, generation)), []int{2, 3})
		f.complete(0, generation)
	})
}

// TestGroupsThatRedisNeverHeardOf has Redis come back from before groups were launched. Those that the run plays no
// more have left, so that a late commit of one is not taken for a new group.
func TestGroupsThatRedisNeverHeardOf(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	mark := runstatus.Mark{Era: 1, Serial: 9}
	_, err := f.Repair(f.ctx, run, buffer.Repair{Era: 2, Mark: mark, NextGroup: 3, Playing: []rollout.GroupSeq{2}})
	f.ok(err)
	for seq, left := range []bool{true, true, false} {
		c, err := f.CommitGroup(f.ctx, group(seq, 0))
		f.ok(err)
		expect(t, fmt.Sprintf("group %d has left", seq), c.Duplicate && c.Dropped != "", left)
	}
	expect(t, "counts", f.counts(), steprecord.BufferCounts{Ready: 1, Dropped: 2})
}

// TestAReadyGroupThatAnOlderRedisHasInPlay: its workflow is over, so that nothing would end it.
func TestAReadyGroupThatAnOlderRedisHasInPlay(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	f.queue(0, 1)
	_, err := f.Repair(f.ctx, run, buffer.Repair{Era: 2, Mark: runstatus.Mark{Era: 1, Serial: 9}, NextGroup: 2,
		Playing: []rollout.GroupSeq{1}, Ready: []rollout.GroupSeq{0}})
	f.ok(err)
	expect(t, "counts", f.counts(), steprecord.BufferCounts{Queued: 1, Dropped: 1})
}

// TestStepsThatARepairForgets: groups of steps that are not retained any more have been trained on, and stay so.
func TestStepsThatARepairForgets(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	f.ready(0, 0, 1)
	for step := range 2 {
		f.claim(step, 0)
		f.complete(step, 0)
	}
	_, err := f.Repair(f.ctx, run, buffer.Repair{Era: 2, NextGroup: 2,
		Mark: runstatus.Mark{Era: 1, Serial: 9, Granted: 7, Completed: 7}})
	f.ok(err)
	for seq := range 2 {
		c, err := f.CommitGroup(f.ctx, group(seq, 0))
		f.ok(err)
		expect(t, fmt.Sprintf("group %d, committed late", seq), c, buffer.Commit{Duplicate: true})
	}
	expect(t, "counts", f.counts(), steprecord.BufferCounts{Completed: 2})
}

// TestRedisForgetsOneCall has Redis lose the latest thing that a trainer was told, with no restart to show it: the
// process that told it knows.
func TestRedisForgetsOneCall(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	f.ready(0, 0)
	var generation int
	for _, tt := range []struct {
		name string
		call func()
	}{
		{"attach", func() { generation, _ = f.attach(-1) }},
		{"claim", func() { f.claim(0, generation) }},
		{"record", func() { f.complete(0, generation) }},
	} {
		before := redistest.ImageOf(t, f.rdb)
		tt.call()
		after := redistest.ImageOf(t, f.rdb)
		before.Restore(t, f.rdb)
		_, _, err := f.Attach(f.ctx, run, nil)
		expect(t, tt.name+" is missed", buffer.Unconfirmed(err), true)
		after.Restore(t, f.rdb)
	}
}

// TestAWorkflowThatIsToldLate learns of a batch when the next one is granted already: that one's groups are still to be
// told.
func TestAWorkflowThatIsToldLate(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	generation, _ := f.attach(-1)
	f.ready(0, 0, 1)
	f.claim(0, generation)
	first, _ := f.Unwitnessed(run)
	f.claim(1, generation)
	f.ok(f.Witnessed(f.ctx, run, first))
	mark, _ := f.Unwitnessed(run)
	told := slices.ContainsFunc(mark.Grants, func(g runstatus.Grant) bool { return g.Step == 1 && len(g.Seqs) == 1 })
	expect(t, "the batch of step 1 is still to be told", told, true)
}

// TestADeletedRunDoesNotReturn has another process delete a run: it is not awaited as one that Redis has forgotten.
func TestADeletedRunDoesNotReturn(t *testing.T) {
	t.Parallel()
	f := open(t, redistest.Real(t), spec(1, 9))
	f.attach(-1)
	f.ok(buffer.New(f.rdb, buffer.Options{}).Delete(f.ctx, run))
	_, _, err := f.Attach(f.ctx, run, nil)
	f.refused(err, rollout.NoSuchRun)
	expect(t, "may return", f.MayReturn(f.ctx, run), false)
}
