package workflows

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/rollout"
)

// ReleaseGames ends the attempts at a group's games that are with workers which are gone, as Temporal would when it has
// missed their heartbeats for long enough: the games go on elsewhere. It returns how many there were. An attempt whose
// worker lives after all goes on as one that Temporal has forgotten (ADR 17).
func (c *Client) ReleaseGames(ctx context.Context, ref rollout.GroupRef, gone func(worker string) bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id := c.Deployment.GroupID(ref)
	desc, err := c.latest(ctx, id)
	if err != nil {
		return 0, c.failed("look at the games of a group of", ref.Run, err)
	}
	released := 0
	for _, a := range desc.GetPendingActivities() {
		if a.GetState() != enums.PENDING_ACTIVITY_STATE_STARTED || !isGame[a.GetActivityType().GetName()] ||
			!gone(a.GetLastWorkerIdentity()) {
			continue
		}
		death := temporal.NewApplicationError("its worker "+a.GetLastWorkerIdentity()+" is not heard of any more",
			string(rollout.CodeTimeout))
		execution := desc.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		err := c.Temporal.CompleteActivityByID(ctx, c.Namespace, id, execution, a.GetActivityId(), nil, death)
		var over *serviceerror.NotFound
		if errors.As(err, &over) {
			continue
		}
		if err != nil {
			return released, c.failed("release the games of a group of", ref.Run, err)
		}
		released++
	}
	return released, nil
}

// isGame has the activities that play: games, and the warm-ups that they begin with.
var isGame = map[string]bool{"PlayEpisode": true, "WarmUpGroup": true}

// GroupRunning reports whether a group's workflow is running.
func (c *Client) GroupRunning(ctx context.Context, ref rollout.GroupRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	running, err := c.running(ctx, c.Deployment.GroupID(ref))
	if err != nil {
		return false, c.failed("look for a group of", ref.Run, err)
	}
	return running, nil
}

// TellEnd tells a run how a group of it ended: see [activities.Groups].
func (c *Client) TellEnd(ctx context.Context, run rollout.RunName, end activities.GroupEnd) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.Temporal.SignalWorkflow(ctx, c.Deployment.RunID(run), "", SignalGroupEnd, end)
	var over *serviceerror.NotFound
	if err != nil && !errors.As(err, &over) {
		return fmt.Errorf("tell run %s of group %d: %w", run, end.Seq, err)
	}
	return nil
}

// CancelGroups cancels the groups of a run that is gone.
func (c *Client) CancelGroups(ctx context.Context, run rollout.RunName, seqs []rollout.GroupSeq) error {
	for _, seq := range seqs {
		id := c.Deployment.GroupID(rollout.GroupRef{Run: run, Seq: seq})
		err := c.ifRunning(ctx, id, func(ctx context.Context) error { return c.Temporal.CancelWorkflow(ctx, id, "") })
		if err != nil {
			return c.failed("cancel a group of", run, err)
		}
	}
	return nil
}

// ifRunning does something to a workflow; one that has ended, or is not there, is passed over.
func (c *Client) ifRunning(ctx context.Context, id string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	running, err := c.running(ctx, id)
	if err != nil || !running {
		return err
	}
	err = do(ctx)
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil
	}
	return err
}
