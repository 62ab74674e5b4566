package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
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
		return l.readAccount(ctx, task.Since), nil
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
		return l.inspected(ctx, task.Adapter), nil
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

func (r *run) readAccount(ctx workflow.Context, since rollout.Step) runmachine.AccountRead {
	ctx = workflow.WithLocalActivityOptions(ctx, accountActivity())
	var account activities.Account
	in := activities.AccountInput{Run: r.given.Name, Since: since}
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
		RestoreInput: activities.RestoreInput{Spec: r.given, Status: task.Status, Key: task.Key}, AsOf: workflow.Now(ctx),
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
		FleetHistory: a.FleetHistory,
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
		Status: task.Status, AsOf: workflow.Now(ctx), Change: task.Change, Key: task.Key,
		RewardVarianceChanged: task.VarianceChanged,
	})
}

// launch starts groups and waits until the server has them: in lots that one task has room for each, if all of them are
// too large for it.
func (r *run) launch(ctx workflow.Context, groups []runmachine.Group) error {
	for some := range slices.Chunk(groups, groupLot(ctx, r.input(ctx, groups[0]))) {
		if err := r.launchLot(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) launchLot(ctx workflow.Context, groups []runmachine.Group) error {
	children := make([]workflow.ChildWorkflowFuture, len(groups))
	for i, g := range groups {
		children[i] = r.start(ctx, g)
		r.watch(ctx, g.Seq, children[i])
	}
	for _, child := range children {
		err := child.GetChildWorkflowExecution().Get(ctx, nil)
		already := temporal.IsWorkflowExecutionAlreadyStartedError(err) // by an execution that was reset since
		if err != nil && !already {
			return fmt.Errorf("start group: %w", err)
		}
	}
	return nil
}

// start starts a group as a child that survives this execution.
func (r *run) start(ctx workflow.Context, g runmachine.Group) workflow.ChildWorkflowFuture {
	in := r.input(ctx, g)
	options := workflow.ChildWorkflowOptions{
		WorkflowID:            r.ids.GroupID(in.Plan.Ref),
		TaskQueue:             r.ids.Queues().Control,
		ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}
	describeGroup(ctx, &options, in.Plan)
	return workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, options), Group, in)
}

func (r *run) input(ctx workflow.Context, g runmachine.Group) GroupInput {
	in := GroupInput{
		Plan: r.plan(r.ref(g.Seq), g.Version, workflow.Now(ctx)), Run: workflow.GetInfo(ctx).WorkflowExecution.ID,
		Games: r.ids.Queues().Of(r.given.Name).Games,
	}
	in.GameLot = perTask(in)
	return in
}

// watch hears when a group that this execution has started ends.
func (r *run) watch(ctx workflow.Context, seq rollout.GroupSeq, group workflow.ChildWorkflowFuture) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		err := group.Get(ctx, nil)
		r.tell(ctx, runmachine.GroupClosed{Seq: seq, Foreign: temporal.IsWorkflowExecutionAlreadyStartedError(err)})
	})
}

func (r *run) plan(ref rollout.GroupRef, v rollout.PolicyVersion, now time.Time) activities.GroupPlan {
	spec := r.machine.Spec
	model := v.Adapter(spec.Name)
	if model == "" {
		model = spec.Model
	}
	fixed := map[string]string{} // models of the fixed policies, by name
	for _, p := range spec.Policies {
		fixed[p.Name] = p.Model(spec.Name, spec.Model)
	}
	return activities.GroupPlan{
		Ref:         ref,
		Seed:        groupSeed(spec.Seed, ref.Seq),
		GroupSpec:   spec.Group,
		Environment: spec.Environment,
		Model:       model,
		Version:     v,
		Refresh:     spec.PolicyRefresh,
		Fixed:       fixed,
		Sampling:    spec.Sampling,
		Timeouts:    spec.Timeouts,
		LaunchedAt:  now,
	}
}

// groupSeed gives each group its own stream (splitmix64 of the run's seed and the group's number).
func groupSeed(seed int64, seq rollout.GroupSeq) int64 {
	z := uint64(seed) + (uint64(seq)+1)*0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return int64((z ^ z>>31) >> 1)
}

// cancelGames cancels the games of groups. While the run is active that is done meanwhile, and its history is not cut
// before.
func (r *run) cancelGames(ctx workflow.Context, seqs []rollout.GroupSeq) runmachine.Done {
	if r.machine.Finishing() {
		r.cancelInRounds(ctx, seqs)
		return runmachine.Done{}
	}
	r.cancelling++
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { r.cancelling-- }()
		r.cancelInRounds(ctx, seqs)
	})
	return runmachine.Done{}
}

func (r *run) cancelInRounds(ctx workflow.Context, seqs []rollout.GroupSeq) {
	for len(seqs) > 0 {
		n := r.machine.CancelRound(len(seqs))
		asked, began := make([]workflow.Future, n), workflow.Now(ctx)
		for i, seq := range seqs[:n] {
			asked[i] = workflow.RequestCancelExternalWorkflow(ctx, r.ids.GroupID(r.ref(seq)), "")
		}
		for i, future := range asked {
			if err := future.Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Info("group already over", "group", seqs[i], "error", err)
			}
		}
		r.machine.CancelledRound(workflow.Now(ctx).Sub(began), n)
		if seqs = seqs[n:]; len(seqs) > 0 {
			_ = workflow.Sleep(ctx, runmachine.RoundEvery) // a cancelled context must still cancel groups
		}
	}
}

// restoreActivity leaves time to read the files of fixed policies.
func restoreActivity() workflow.ActivityOptions {
	options := shortActivity()
	options.StartToCloseTimeout, options.HeartbeatTimeout = time.Minute, loadHeartbeat
	return options
}
