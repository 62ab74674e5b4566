package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

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
		Plan: r.plan(g, workflow.Now(ctx)), Run: workflow.GetInfo(ctx).WorkflowExecution.ID,
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

func (r *run) plan(g runmachine.Group, now time.Time) activities.GroupPlan {
	spec, ref, v := r.machine.Spec, r.ref(g.Seq), g.Version
	fixed, elsewhere := map[string]string{}, map[string]runspec.FixedPolicy{} // policies, by name
	for _, p := range spec.Policies {
		if p.URL != "" {
			elsewhere[p.Name] = p
		} else {
			fixed[p.Name] = p.ServedAs(spec.Name, spec.Model)
		}
	}
	environment := spec.Environment
	if version, is := rollout.VersionOfPlayer(g.Opponent); is {
		fixed[g.Opponent] = spec.ModelOf(version)
		environment = environment.Against(rollout.PlayedByPolicy + g.Opponent)
	} else if g.Opponent != "" {
		environment = environment.Against(g.Opponent)
	}
	return activities.GroupPlan{
		Ref:         ref,
		Seed:        groupSeed(spec.Seed, ref.Seq),
		GroupSpec:   spec.Group,
		Environment: environment,
		Opponent:    g.Opponent,
		Model:       spec.ModelOf(v),
		Version:     v,
		Player:      spec.PlayerOf(v),
		Refresh:     spec.PolicyRefresh,
		Fixed:       fixed,
		Elsewhere:   elsewhere,
		Sampling:    spec.Sampling,
		Timeouts:    spec.Timeouts,
		LaunchedAt:  now,
	}
}

// groupSeed gives each group its own stream (splitmix64 of the run's seed and the group's number).
func groupSeed(seed int64, seq rollout.GroupSeq) int64 {
	return int64(stat.Mix(uint64(seed)+(uint64(seq)+1)*0x9E3779B97F4A7C15) >> 1)
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
