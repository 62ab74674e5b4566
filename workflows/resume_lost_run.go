package workflows

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/run/runmachine"
	"github.com/millrace/millrace/internal/store/buffer"
)

// A run whose workflow is gone, because it was terminated or Temporal lost it, can be resumed from its status and the
// buffer's account. It goes on at its version, its step and its next group, never at the beginning.

// Lost is the surviving knowledge of a run whose workflow is gone.
type Lost struct {
	Spec    runspec.Spec        // as the run was started with
	Status  runstatus.RunStatus // as its workflow mirrored it last
	Account buffer.Account
	// Unheard is the groups that it may have launched and that the buffer has not heard of yet.
	Unheard []rollout.GroupSeq
}

// Resume begins a run's workflow again where the lost one was. A workflow that runs is left as it is.
func (c *Client) Resume(ctx context.Context, lost Lost) (runstatus.RunStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	run := lost.Spec.Name
	account := accountOf(activities.Account{Account: lost.Account})
	state := runmachine.Resume(runmachine.Lost{
		Spec: lost.Spec, Status: lost.Status, Account: account, Unheard: lost.Unheard,
	}, time.Now())
	err := c.startRun(ctx, client.StartWorkflowOptions{
		ID:                    c.Deployment.RunID(run),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		Memo:                  map[string]any{"spec": lost.Spec, "spec_hash": spec.Hash(lost.Spec)},
	}, state.Status(), RunInput{
		Spec: lost.Spec, Deployment: c.Deployment, State: state, Resumed: true,
	})
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if err != nil && !errors.As(err, &already) {
		return runstatus.RunStatus{}, c.failed("resume run", run, err)
	}
	return state.Status(), nil
}
