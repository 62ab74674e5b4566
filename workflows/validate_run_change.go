package workflows

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// validateChange reports why a change cannot be made to a run in this state.
//
//workflowcheck:ignore specs are read and checked by reflection, in the order of their keys
func validateChange(r *runmachine.Run, c spec.Change) error {
	if r.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; only an active run can be changed", r.Spec.Name, r.State)
	}
	if c.Empty() {
		return rollout.Refuse(rollout.Invalid, "the change sets nothing; name a key, such as buffer.depth=4")
	}
	after, err := c.Apply(r.Spec)
	if err != nil {
		return rollout.Refuse(rollout.Invalid, "%v", err)
	}
	if after.Steps < r.Claimed {
		return rollout.Refuse(rollout.Invalid, "steps: %d is less than %d, the steps that are claimed already",
			after.Steps, r.Claimed)
	}
	return nil
}

// changed is a change as the machine hears of it. What an earlier version accepted is done again on replay, whatever
// this one says of it.
//
//workflowcheck:ignore specs are read and checked by reflection, in the order of their keys
func changed(before runspec.Spec, c spec.Change) runmachine.Changed {
	after, _ := c.Apply(before)
	return runmachine.Changed{Spec: after, Paused: c.Paused, Text: c.Describe(before, after)}
}
