package workflows

import (
	"context"
	"errors"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
)

// UpdateSettings is the update by which an operator changes how the fleet is scaled.
const UpdateSettings = "settings"

// ScalingSettings is by what the fleet is scaled.
type ScalingSettings struct {
	Settings scaling.Config `json:"settings"`
	Set      []string       `json:"set,omitempty"` // those that an operator has set while it ran
}

// SetScaling changes settings of scaling. They hold from the next sample on, a second or two later, until the
// configuration's section changes or they are reset. Settings that cannot be are refused, and so are all where scaling
// is not configured.
func (c *Client) SetScaling(ctx context.Context, change scaling.SettingsChange) (ScalingSettings, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var now ScalingSettings
	handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: c.Deployment.ScalingID(), UpdateName: UpdateSettings, Args: []any{change},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &now)
	}
	var notFound *serviceerror.NotFound
	switch {
	case err == nil:
		return now, nil
	case errors.As(err, &notFound):
		return now, notScaled()
	}
	return now, c.failed("set how the fleet is scaled", "", err)
}

func notScaled() error {
	return rollout.Refuse(rollout.NotScaled, "the fleet is not scaled: no worker's configuration has a section `scaling` "+
		"(docs/scaling.md)")
}
