package workflows

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Drive is what Temporal knows of the workflow that drives a run.
type Drive struct {
	Running bool
	Known   bool                // false: Temporal has no such workflow (any more)
	How     string              // it ended, such as "terminated"
	Status  runstatus.RunStatus // that it ended with, if it ended by itself
}

// Drive asks whether a run's workflow is running. An error means that Temporal did not say.
func (c *Client) Drive(ctx context.Context, run rollout.RunName) (Drive, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	id := c.Deployment.RunID(run)
	desc, err := c.latest(ctx, id)
	if err != nil {
		return Drive{}, c.failed("look for run", run, err)
	}
	if desc == nil {
		return Drive{}, nil
	}
	status := desc.GetWorkflowExecutionInfo().GetStatus()
	d := Drive{
		Known: true, Running: status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, How: strings.ToLower(status.String()),
	}
	if status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		if err := c.Temporal.GetWorkflow(ctx, id, "").Get(ctx, &d.Status); err != nil {
			return Drive{}, c.failed("read the end of run", run, err)
		}
	}
	return d, nil
}

// LaterLife is the id of a name's run when Redis does not know the name. It is the run of a later life that is active
// in Temporal, or else the id after the latest that Temporal remembers, so that adapter names and workflow ids are
// never reused. It is id itself when Temporal knows of no later one.
func (c *Client) LaterLife(ctx context.Context, id rollout.RunName) (rollout.RunName, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	runs := strings.TrimSuffix(c.Deployment.RunID("x"), "x")
	query := fmt.Sprintf("WorkflowId STARTS_WITH '%s@'", quoted(runs+string(id.Plain())))
	life, goesOn := 0, false
	err := c.each(ctx, query, func(info *workflow.WorkflowExecutionInfo) error {
		found := rollout.RunName(strings.TrimPrefix(info.GetExecution().GetWorkflowId(), runs))
		if found.ValidateID() != nil {
			return nil
		}
		running := info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING
		switch n := found.Life(); {
		case n > life:
			life, goesOn = n, running
		case n == life: // a run whose history was cut, or that was lost and resumed, has ended executions, too
			goesOn = goesOn || running
		}
		return nil
	})
	if err != nil {
		return id, c.failed("look for a run of the name", id, err)
	}
	if life > 0 && !goesOn {
		life++
	}
	return id.Plain().InLife(max(life, id.Life())), nil
}

// eraseTimeout bounds the erasure of one run's workflows, a portion of which may be left then.
const eraseTimeout = 5 * time.Minute

// Erase ends a run's workflow and its groups', and takes their histories out of Temporal. What is gone already, or
// may not be deleted here, is passed over; Temporal's own retention takes the rest.
func (c *Client) Erase(ctx context.Context, run rollout.RunName) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	id := c.Deployment.RunID(run)
	end := func(ctx context.Context) error {
		return c.Temporal.TerminateWorkflow(ctx, id, "", "the run was deleted")
	}
	if err := c.ifRunning(ctx, id, end); err != nil { // before its groups, or it would launch more
		return c.failed("end run", run, err)
	}
	if err := c.erase(ctx, fmt.Sprintf("WorkflowId = '%s'", quoted(id))); err != nil {
		return c.failed("delete the workflow of", run, err)
	}
	groups := strings.TrimSuffix(c.Deployment.GroupID(rollout.GroupRef{Run: run}), "0")
	if err := c.erase(ctx, fmt.Sprintf("WorkflowId STARTS_WITH '%s'", quoted(groups))); err != nil {
		return c.failed("delete the groups of", run, err)
	}
	return nil
}

// erase deletes what a query finds on this deployment's task queue.
func (c *Client) erase(ctx context.Context, query string) error {
	return c.each(ctx, query, func(info *workflow.WorkflowExecutionInfo) error {
		return c.deleteExecution(ctx, info.GetExecution())
	})
}

// each calls f with what a query finds on this deployment's task queue.
func (c *Client) each(ctx context.Context, query string, f func(*workflow.WorkflowExecutionInfo) error) error {
	query = fmt.Sprintf("%s AND TaskQueue = '%s'", query, quoted(c.Deployment.Queues().Control))
	for page := []byte(nil); ; {
		list, err := c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: c.Namespace, Query: query, PageSize: 100, NextPageToken: page,
		})
		if err != nil {
			return err
		}
		for _, info := range list.GetExecutions() {
			if err := f(info); err != nil {
				return err
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return nil
		}
	}
}

func (c *Client) deleteExecution(ctx context.Context, execution *common.WorkflowExecution) error {
	_, err := c.Temporal.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: c.Namespace, WorkflowExecution: execution,
	})
	var notFound *serviceerror.NotFound
	var denied *serviceerror.PermissionDenied
	var unimplemented *serviceerror.Unimplemented
	if errors.As(err, &notFound) || errors.As(err, &denied) || errors.As(err, &unimplemented) {
		return nil
	}
	return err
}

// quoted is a text for a query between single quotes.
func quoted(text string) string { return strings.ReplaceAll(text, "'", "''") }
