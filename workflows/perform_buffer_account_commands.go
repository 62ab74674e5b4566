package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
)

func (r *run) readAccount(ctx workflow.Context, task runmachine.ReadAccount) runmachine.AccountRead {
	ctx = workflow.WithLocalActivityOptions(ctx, accountActivity())
	var account activities.Account
	in := activities.AccountInput{Run: r.given.Name, Since: task.Since, Mirrors: task.Mirrors}
	err := workflow.ExecuteLocalActivity(ctx, acts.Account, in).Get(ctx, &account)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the buffer does not answer", "error", err)
	}
	return runmachine.AccountRead{
		Account: accountOf(account), Failed: err != nil,
		Forgotten: err != nil && activities.Code(err) == rollout.Code(rollout.NoSuchRun),
	}
}

func accountActivity() workflow.LocalActivityOptions {
	return workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{ // trainers may wait for it when Redis comes back
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 500 * time.Millisecond,
		},
	}
}

func (r *run) confirmBuffer(ctx workflow.Context, task runmachine.ConfirmBuffer) runmachine.Done {
	ctx = workflow.WithLocalActivityOptions(ctx, accountActivity())
	in := activities.ConfirmInput{Run: r.given.Name, Era: task.Era, ReplicationID: task.ReplicationID}
	var confirmed bool
	err := workflow.ExecuteLocalActivity(ctx, acts.ConfirmAccount, in).Get(ctx, &confirmed)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the buffer's account cannot be confirmed", "error", err)
	}
	return runmachine.Done{Failed: err != nil || !confirmed}
}

// repairBuffer has nothing undone in a Redis that came back older, or empty.
func (r *run) repairBuffer(ctx workflow.Context, task runmachine.RepairBuffer) runmachine.Repaired {
	ctx = workflow.WithActivityOptions(ctx, restoreActivity())
	in := activities.RepairInput{
		RestoreInput: activities.RestoreInput{Spec: r.given, Status: task.Status, Key: task.Key}, Mirror: task.Mirror,
		Repair: buffer.Repair{Era: task.Era, Mark: task.Mark, NextGroup: task.NextGroup, Playing: task.Playing,
			Ready: task.Ready},
	}
	var out activities.Repaired
	err := workflow.ExecuteActivity(ctx, acts.RepairAccount, in).Get(ctx, &out)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the buffer's account cannot be repaired", "error", err)
	}
	return runmachine.Repaired{Account: accountOf(out.Account), Rollback: out.Rollback, Failed: err != nil}
}

// assertAdapters tells a fleet whose Redis may have gone back what the run needs.
func (r *run) assertAdapters(ctx workflow.Context, task runmachine.AssertAdapters) runmachine.Done {
	ctx = workflow.WithActivityOptions(ctx, restoreActivity())
	in := activities.RestoreInput{Spec: r.given, Status: task.Status}
	err := workflow.ExecuteActivity(ctx, acts.AssertAdapters, in).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the fleet cannot be told what the run needs", "error", err)
	}
	return runmachine.Done{Failed: err != nil}
}

// accountOf is the buffer's account as the machine takes it.
func accountOf(a activities.Account) runmachine.Account {
	return runmachine.Account{
		Highest: a.Highest, Queued: a.Queued, InFlight: a.InFlight, Ready: a.Ready,
		Claimed: int(a.ClaimedTo), Completed: int(a.NextStep), Version: a.Version,
		Bytes: a.Counts.Bytes, GroupBytes: a.GroupBytes,
		Mark: a.Mark, Confirmed: a.Confirmed(), ReplicationID: a.ReplicationID, Refills: a.Refills,
		FleetHistory: a.FleetHistory, Mirrors: a.Mirrors,
		Told: a.Told, Unheard: a.Unheard,
	}
}

func (r *run) release(ctx workflow.Context, task runmachine.Release) runmachine.Released {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	in := activities.ReleaseInput{Run: r.given.Name, Seqs: task.Seqs, Code: task.Code, Queued: task.OnlyQueued}
	var released []rollout.GroupSeq
	err := workflow.ExecuteActivity(ctx, acts.ReleaseGroups, in).Get(ctx, &released)
	if err != nil {
		workflow.GetLogger(ctx).Error("release groups", "groups", task.Seqs, "error", err)
	}
	return runmachine.Released{Seqs: released, Failed: err != nil}
}
