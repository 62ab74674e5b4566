package workflows

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/rollout"
)

// ReleaseGames ends the attempts at a group's games that are with workers which are gone, as Temporal would when it has
// missed their heartbeats for long enough: the games go on elsewhere. It returns how many there were. An attempt whose
// worker lives after all goes on as one that Temporal has forgotten (ADR 17).
func (c *Client) ReleaseGames(ctx context.Context, ref rollout.GroupRef, gone func(worker string) bool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	released := 0
	for _, d := range []Deployment{c.Deployment, ""} {
		id := d.GroupID(ref)
		desc, err := c.own(ctx, id)
		if err != nil {
			return released, c.failed("look at the games of a group of", ref.Run, err)
		}
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
		if desc != nil {
			break
		}
	}
	return released, nil
}

// isGame has the activities that play: games, and the warm-ups that they begin with.
var isGame = map[string]bool{"PlayEpisode": true, "WarmUpGroup": true}
