package workflows

import (
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Search attributes by which Temporal lists runs and groups. A workflow has them if the namespace knew all of them when
// it was started: a workflow that names one that the namespace does not know cannot go on. So whatever sets one asks
// first whether the workflow has RunAttribute.
var (
	runAttribute     = temporal.NewSearchAttributeKeyKeyword("MillraceRun")
	stateAttribute   = temporal.NewSearchAttributeKeyKeyword("MillraceState")
	codeAttribute    = temporal.NewSearchAttributeKeyKeyword("MillraceCode")
	stepAttribute    = temporal.NewSearchAttributeKeyInt64("MillraceStep")
	versionAttribute = temporal.NewSearchAttributeKeyInt64("MillracePolicyVersion")
)

// Attributes is every search attribute and its type, as a namespace must have them.
func Attributes() map[string]enums.IndexedValueType {
	all := map[string]enums.IndexedValueType{}
	for _, key := range []temporal.SearchAttributeKey{
		runAttribute, stateAttribute, codeAttribute, stepAttribute, versionAttribute,
	} {
		all[key.GetName()] = key.GetValueType()
	}
	return all
}

// States of a group as an attribute. The page and the run's account say more about a launched one.
const (
	groupLaunched = "launched"
	groupReady    = "ready"
	groupDropped  = "dropped"
)

// runAttributes is a run's as it begins, or is resumed.
func runAttributes(s runstatus.RunStatus) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(append(standing(s), runAttribute.ValueSet(string(s.Spec.Name)))...)
}

// standing is the changing attributes of a run.
func standing(s runstatus.RunStatus) []temporal.SearchAttributeUpdate {
	return []temporal.SearchAttributeUpdate{
		stateAttribute.ValueSet(string(s.State)), stepAttribute.ValueSet(int64(s.NextStep)),
		versionAttribute.ValueSet(int64(s.PolicyVersion)),
	}
}

// groupAttributes is a group's as it begins.
func groupAttributes(plan activities.GroupPlan) temporal.SearchAttributes {
	return temporal.NewSearchAttributes(
		runAttribute.ValueSet(string(plan.Ref.Run)), stateAttribute.ValueSet(groupLaunched),
		versionAttribute.ValueSet(int64(plan.Version)),
	)
}

// indexed reports whether a workflow was started with search attributes.
func indexed(ctx workflow.Context) bool {
	return workflow.GetTypedSearchAttributes(ctx).ContainsKey(runAttribute)
}

// standingKey is when a run's attributes and memo are written again: with each step and each state, never more often,
// because that is two events of its history.
type standingKey struct {
	state runstatus.RunState
	step  rollout.Step
}

// index has Temporal list the run as it is.
func (r *run) index(ctx workflow.Context) {
	s := r.machine.Status()
	now := standingKey{s.State, s.NextStep}
	if now == r.indexed {
		return
	}
	r.indexed = now
	err := workflow.UpsertMemo(ctx, map[string]any{
		"state": s.State, "step": s.NextStep, "policy_version": s.PolicyVersion,
	})
	if err == nil && indexed(ctx) {
		err = workflow.UpsertTypedSearchAttributes(ctx, standing(s)...)
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("Temporal does not list the run as it is", "error", err)
	}
}

// indexEnd has Temporal list a group by what became of it. It comes in the workflow's last task, so that it costs no
// task of its own.
func indexEnd(ctx workflow.Context, end activities.GroupEnd) {
	if !indexed(ctx) {
		return
	}
	updates := []temporal.SearchAttributeUpdate{stateAttribute.ValueSet(groupReady)}
	if end.Code != "" {
		updates = []temporal.SearchAttributeUpdate{
			stateAttribute.ValueSet(groupDropped), codeAttribute.ValueSet(string(end.Code)),
		}
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("Temporal does not list the group by its end", "error", err)
	}
}
