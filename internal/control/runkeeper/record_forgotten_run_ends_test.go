package runkeeper

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/internal/store/redistest"
	"github.com/millrace/millrace/workflows"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// TestRedisForgetsTheEndOfARun has a run complete its last step and end, and then Redis come back from before that. Its
// workflow is over, so that the keeper repairs what trainers were told: nobody is given the last step again.
func TestRedisForgetsTheEndOfARun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		forgets   rollout.Step // the first step that Redis no longer knows to be completed, of three
		batch     bool         // it knows that the last one was granted
		rolledOut bool         // the run says that it was rolled back
		untold    bool         // the account's mark lacks the last record, and the status has it
	}{
		{"nothing but the end", 3, true, false, false},
		{"the last record", 2, true, true, false},
		{"the last record, of which no mark tells", 2, true, true, true},
		{"the last batch and two records", 1, false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newEnded(t)
			var mark runstatus.Mark
			for step := range rollout.Step(3) {
				if step == tt.forgets && !tt.batch {
					f.save()
				}
				f.claim(step)
				if step == tt.forgets && tt.batch {
					f.save()
				}
				mark = f.mark()
				f.complete(step)
			}
			if tt.forgets == 3 {
				f.save()
			}
			f.end()
			if tt.untold {
				f.workflow.mark = mark
			}
			f.image.Restore(t, f.rdb)
			f.Store = buffer.New(f.rdb, buffer.Options{}) // a process that knows nothing
			f.keep()
			f.keep() // again changes nothing
			status, err := f.Status(f.ctx, run)
			if err != nil || status.State != runstatus.RunCompleted || (status.Rollback != nil) != tt.rolledOut {
				t.Errorf("the run is %s, rolled back %v, %v", status.State, status.Rollback, err)
			}
			if tt.rolledOut && status.Rollbacks != 1 {
				t.Errorf("it was rolled back %d times", status.Rollbacks)
			}
			generation, next, err := f.Attach(f.ctx, run, nil)
			if err != nil || next != 3 || generation <= f.generation {
				t.Errorf("a trainer is announced as %d, after %d, and sent to step %d: %v", generation, f.generation, next, err)
			}
			records, err := f.AllSteps(f.ctx, run, 0, 0)
			if err != nil || len(records) != 3 {
				t.Fatalf("%d records are kept: %v", len(records), err)
			}
			for step, r := range records {
				if !r.Done || r.LostRecord != (rollout.Step(step) >= tt.forgets) {
					t.Errorf("step %d: done %v, record lost %v", step, r.Done, r.LostRecord)
				}
			}
		})
	}
}

// TestEndedRunWhoseWorkflowSaysNothing is over in the end, when nobody can say how far its account had come.
func TestEndedRunWhoseWorkflowSaysNothing(t *testing.T) {
	t.Parallel()
	f := newEnded(t)
	f.save()
	f.end()
	f.image.Restore(t, f.rdb)
	f.workflow.silent = errors.New("no worker can replay it")
	k := f.keeper()
	if err := k.sayEnd(f.ctx, f.workflow.status, time.Second); err == nil {
		t.Error("nobody was asked again")
	}
	if err := k.sayEnd(f.ctx, f.workflow.status, time.Hour); err != nil {
		t.Fatal(err)
	}
	if status, err := f.Status(f.ctx, run); err != nil || status.State != runstatus.RunCompleted {
		t.Errorf("the run is %s: %v", status.State, err)
	}
}

const run = rollout.RunName("demo")

// ended is a run on a Redis, and what its workflow says when it has ended.
type ended struct {
	*buffer.Store
	t          *testing.T
	ctx        context.Context
	rdb        redis.UniversalClient
	image      redistest.Image
	generation rollout.TrainerGeneration
	seq        rollout.GroupSeq
	workflow   closedWorkflow
}

func newEnded(t *testing.T) *ended {
	t.Helper()
	rdb := redistest.Real(t)
	f := &ended{t: t, ctx: t.Context(), rdb: rdb, Store: buffer.New(rdb, buffer.Options{})}
	spec := runspec.Spec{
		Name: run, Model: "m", Steps: 3, Environment: runspec.Environment{Kind: "tictactoe"},
		Group: runspec.GroupSpec{Samples: 1, MinSamples: 1},
		Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1, MaxStaleness: 9, OnStale: runspec.DropStale,
			Prefill: runspec.PrefillBatch},
	}
	f.workflow.status = runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning}
	f.ok(f.Open(f.ctx, spec))
	f.ok(f.SaveStatus(f.ctx, f.workflow.status, 0))
	var err error
	f.generation, _, err = f.Attach(f.ctx, run, nil)
	f.ok(err)
	return f
}

func (f *ended) ok(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *ended) claim(step rollout.Step) {
	f.t.Helper()
	ref := rollout.GroupRef{Run: run, Seq: f.seq}
	f.seq++
	_, err := f.Queue(f.ctx, ref, nil, 0, time.Now())
	f.ok(err)
	f.ok(f.Start(f.ctx, ref))
	_, err = f.CommitGroup(f.ctx, &rollout.Group{Ref: ref, Samples: 1, Trajectories: []rollout.Trajectory{{
		ID: rollout.EpisodeRef{GroupRef: ref}.TrajectoryID("X"), Agent: "X", Reward: 1,
		Turns: []rollout.Turn{{PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1}}},
	}}})
	f.ok(err)
	_, err = f.Claim(f.ctx, run, step, f.generation, buffer.Share{})
	f.ok(err)
}

func (f *ended) complete(step rollout.Step) {
	f.t.Helper()
	_, _, err := f.Complete(f.ctx, run, step, f.generation, steprecord.StepReport{WallSec: 1}, steprecord.FleetView{})
	f.ok(err)
}

func (f *ended) mark() runstatus.Mark {
	f.t.Helper()
	account, err := f.Account(f.ctx, run)
	f.ok(err)
	return account.Mark
}

func (f *ended) save() { f.image = redistest.ImageOf(f.t, f.rdb) }

// end has the workflow end as it is.
func (f *ended) end() {
	f.t.Helper()
	account, err := f.Account(f.ctx, run)
	f.ok(err)
	f.workflow.mark = account.Mark
	s := &f.workflow.status
	s.State, s.NextStep, s.Launched, s.EndedAt = runstatus.RunCompleted, account.NextStep, int64(f.seq), time.Now()
	f.ok(f.SaveStatus(f.ctx, *s, 0))
}

func (f *ended) keeper() *Keeper {
	return &Keeper{Control: &f.workflow, Buffer: f.Store, Pace: Pace{Ended: time.Minute},
		Log: slog.New(slog.DiscardHandler), suspects: map[rollout.RunName]time.Time{}}
}

// keep looks for lost runs, as late as it takes.
func (f *ended) keep() {
	f.t.Helper()
	k := f.keeper()
	f.ok(k.lookForLost(f.ctx))
	for id := range k.suspects {
		k.suspects[id] = time.Now().Add(-time.Hour)
	}
	f.ok(k.lookForLost(f.ctx))
}

// closedWorkflow is a run's workflow that has ended, as Temporal tells of it.
type closedWorkflow struct {
	control
	status runstatus.RunStatus
	mark   runstatus.Mark
	silent error
}

func (w *closedWorkflow) Drive(context.Context, rollout.RunName) (workflows.Drive, error) {
	return workflows.Drive{Known: true, How: "completed", Status: w.status}, nil
}

func (w *closedWorkflow) Mark(context.Context, rollout.RunName) (runstatus.Mark, error) {
	return w.mark, w.silent
}
