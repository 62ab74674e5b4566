package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// perform performs one command of the machine. An error ends the workflow, unless it is the workflow's cancellation.
func (l *line) perform(ctx workflow.Context, cmd runmachine.Command) (runmachine.Result, error) {
	if l.main && l.machine.Finishing() {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
	}
	switch task := cmd.Task.(type) {
	case runmachine.OpenRun:
		return l.openRun(ctx), nil
	case runmachine.AnnounceResumed:
		return l.announceResumed(ctx, task), nil
	case runmachine.Pin:
		return l.pin(ctx, task.Policy), nil
	case runmachine.ReadAccount:
		return l.readAccount(ctx, task), nil
	case runmachine.ConfirmBuffer:
		return l.confirmBuffer(ctx, task), nil
	case runmachine.RepairBuffer:
		return l.repairBuffer(ctx, task), nil
	case runmachine.AssertAdapters:
		return l.assertAdapters(ctx, task), nil
	case runmachine.Release:
		return l.release(ctx, task), nil
	case runmachine.CancelGames:
		return l.cancelGames(ctx, task.Seqs), nil
	case runmachine.LookFor:
		return l.lookFor(ctx, task.Seqs), nil
	case runmachine.DropVanished:
		in := activities.DiscardInput{Ref: l.ref(task.Seq), Code: rollout.CodeVanished}
		return l.short(ctx, acts.DiscardGroup, in), nil
	case runmachine.Launch:
		return runmachine.Done{}, l.launch(ctx, task.Groups)
	case runmachine.Retire:
		return l.short(ctx, acts.RetireAdapter, task.Adapter), nil
	case runmachine.Mirror:
		return l.mirror(ctx, task), nil
	case runmachine.Wait:
		return l.wait(ctx, task)
	case runmachine.Inspect:
		return l.inspected(ctx, task), nil
	case runmachine.Load:
		return l.load(ctx, task.Adapter), nil
	case runmachine.StopLoading:
		return l.stopLoading(task.Version), nil
	case runmachine.Unload:
		return l.unload(ctx, task), nil
	case runmachine.Switch:
		return l.switchTo(ctx, task), nil
	case runmachine.ReportPolicy:
		return l.short(ctx, acts.ReportPolicy, activities.PolicyReport{Run: l.given.Name, Policy: task.Policy}), nil
	case runmachine.Await:
		return runmachine.Done{}, workflow.Await(ctx, func() bool { return !l.machine.Blocked(cmd.ID) })
	case runmachine.AnswerPublication:
		l.answer = task
		return runmachine.Done{}, nil
	}
	panic(fmt.Sprintf("no way to perform %T", cmd.Task))
}

// short runs a short activity whose failure the machine only has to know of.
func (r *run) short(ctx workflow.Context, activity, in any) runmachine.Done {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	err := workflow.ExecuteActivity(ctx, activity, in).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("an activity of the run failed", "input", in, "error", err)
	}
	return runmachine.Done{Failed: err != nil}
}

func (r *run) ref(seq rollout.GroupSeq) rollout.GroupRef {
	return rollout.GroupRef{Run: r.given.Name, Seq: seq}
}

func (r *run) openRun(ctx workflow.Context) runmachine.Done {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	r.failure = workflow.ExecuteActivity(ctx, acts.OpenRun, r.given).Get(ctx, nil)
	return runmachine.Done{Failed: r.failure != nil}
}

func (r *run) announceResumed(ctx workflow.Context, task runmachine.AnnounceResumed) runmachine.Done {
	ctx = workflow.WithActivityOptions(ctx, restoreActivity())
	in := activities.RestoreInput{Spec: r.given, Status: task.Status, Key: task.Key}
	r.failure = workflow.ExecuteActivity(ctx, acts.ResumeRun, in).Get(ctx, nil)
	return runmachine.Done{Failed: r.failure != nil}
}

func (r *run) lookFor(ctx workflow.Context, seqs []rollout.GroupSeq) runmachine.Looked {
	ctx = workflow.WithActivityOptions(ctx, shortActivity())
	var gone []rollout.GroupSeq
	in := activities.LookInput{Run: r.given.Name, Seqs: seqs}
	err := workflow.ExecuteActivity(ctx, acts.LookForGroups, in).Get(ctx, &gone)
	if err != nil {
		workflow.GetLogger(ctx).Warn("look for groups", "error", err)
	}
	return runmachine.Looked{Gone: gone, Failed: err != nil}
}

func (r *run) mirror(ctx workflow.Context, task runmachine.Mirror) runmachine.Done {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return r.short(ctx, acts.Mirror, activities.MirrorInput{
		Status: task.Status, Mirror: task.Number, Change: task.Change, Key: task.Key,
		RewardVarianceChanged: task.VarianceChanged,
	})
}

// restoreActivity leaves time to read the files of fixed policies.
func restoreActivity() workflow.ActivityOptions {
	options := shortActivity()
	options.StartToCloseTimeout, options.HeartbeatTimeout = time.Minute, loadHeartbeat
	return options
}
