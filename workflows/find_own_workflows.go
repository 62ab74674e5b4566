package workflows

import (
	"context"
	"errors"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
)

// Which workflows are this deployment's. What it begins has its name in the id. What earlier versions began has
// not, and may be anybody's: there the task queue decides, which always had the deployment's name.

// workflowOf is the id of the workflow that drives a run. A run that nobody has recorded is looked for where this
// version would have begun it.
func (c *Client) workflowOf(ctx context.Context, run rollout.RunName) (string, error) {
	id, err := c.Runs.Workflow(ctx, run)
	switch {
	case rollout.Refused(err, rollout.NoSuchRun):
		return c.Deployment.RunID(run), nil
	case err != nil || id != "":
		return id, err
	}
	earlier := Deployment("").RunID(run)
	desc, err := c.own(ctx, earlier)
	if err != nil {
		return "", c.failed("look for run", run, err)
	}
	if desc == nil {
		return c.Deployment.RunID(run), nil
	}
	return earlier, nil
}

// own describes the latest execution of a workflow; nil when there is none, or it is another deployment's.
func (c *Client) own(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	desc, err := c.Temporal.DescribeWorkflowExecution(ctx, id, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if desc.GetExecutionConfig().GetTaskQueue().GetName() != c.Deployment.Queues().Control {
		return nil, nil
	}
	return desc, nil
}

// running reports whether the deployment has a workflow with this id that is running.
func (c *Client) running(ctx context.Context, id string) (bool, error) {
	desc, err := c.own(ctx, id)
	return desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}

// GroupRunning reports whether a group's workflow is running, under the id that this version gives it or an earlier
// one gave it.
func (c *Client) GroupRunning(ctx context.Context, ref rollout.GroupRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, d := range []Deployment{c.Deployment, ""} {
		running, err := c.running(ctx, d.GroupID(ref))
		if err != nil {
			return false, c.failed("look for a group of", ref.Run, err)
		}
		if running {
			return true, nil
		}
	}
	return false, nil
}

// EnsureFleet starts the workflow that keeps the engines, unless it runs. One that an earlier version began is
// ended first, so that two keep the engines for no longer than it takes the first one's activity to notice.
func (c *Client) EnsureFleet(ctx context.Context) error {
	const doing = "start the fleet's keeper"
	earlier := Deployment("").FleetID()
	running, err := c.running(ctx, earlier)
	if err != nil {
		return c.failed(doing, "", err)
	}
	if running {
		var gone *serviceerror.NotFound
		err := c.Temporal.TerminateWorkflow(ctx, earlier, "", "this version keeps the fleet as "+c.Deployment.FleetID())
		if err != nil && !errors.As(err, &gone) {
			return c.failed(doing, "", err)
		}
	}
	_, err = c.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       c.Deployment.FleetID(),
		TaskQueue:                c.Deployment.Queues().Control,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "keeps the engines of the deployment " + string(c.Deployment),
		StaticDetails: "One keeper at a time works as an activity, on whichever worker is alive. " +
			"See `millrace engine list`.",
	}, Fleet)
	if err != nil {
		return c.failed(doing, "", err)
	}
	return nil
}
