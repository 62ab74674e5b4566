package workflows

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/activities"
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
	err := c.updateWorkflow(ctx, c.Deployment.ScalingID(), UpdateSettings, &now, change)
	var notFound *serviceerror.NotFound
	switch {
	case err == nil:
		return now, nil
	case errors.As(err, &notFound):
		return now, notScaled()
	}
	return now, c.failed("set how the fleet is scaled", "", err)
}

// EnsureScaling starts the workflow that scales the fleet, unless it runs.
func (c *Client) EnsureScaling(ctx context.Context, cfg activities.ScalingConfig) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       c.Deployment.ScalingID(),
		TaskQueue:                c.Deployment.Queues().Control,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "scales the fleet of the deployment " + string(c.Deployment),
		StaticDetails:            "See `millrace engine scaling`.",
	}, FleetScaling, ScalingInput{Configured: cfg})
	if err != nil {
		return c.failed("start scaling", "", err)
	}
	return nil
}

// ConfigureScaling gives the workflow that scales the fleet a worker's configuration. One whose engines would be got
// elsewhere is refused while there are engines.
func (c *Client) ConfigureScaling(ctx context.Context, cfg activities.ScalingConfig) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.updateWorkflow(ctx, c.Deployment.ScalingID(), UpdateConfigure, nil, cfg); err != nil {
		return c.failed("configure scaling", "", err)
	}
	return nil
}

// EndScaling says that no worker's configuration scales the fleet any more. Its engines are left as they are.
func (c *Client) EndScaling(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.Temporal.SignalWorkflow(ctx, c.Deployment.ScalingID(), "", SignalUnconfigured, nil)
	var notFound *serviceerror.NotFound
	if err != nil && !errors.As(err, &notFound) {
		return c.failed("end scaling", "", err)
	}
	return nil
}

func notScaled() error {
	return rollout.Refuse(rollout.NotScaled, "the fleet is not scaled: no worker's configuration has a section `scaling` "+
		"(docs/scaling.md)")
}

// EnsureFleet starts the workflow that keeps the engines, unless it runs.
func (c *Client) EnsureFleet(ctx context.Context) error {
	_, err := c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       c.Deployment.FleetID(),
		TaskQueue:                c.Deployment.Queues().Control,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "keeps the engines of the deployment " + string(c.Deployment),
		StaticDetails: "One keeper at a time works as an activity, on whichever worker is alive. " +
			"See `millrace engine list`.",
	}, Fleet)
	if err != nil {
		return c.failed("start the fleet's keeper", "", err)
	}
	return nil
}
