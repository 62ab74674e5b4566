package crashtest

import (
	"context"
	"fmt"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// temporal is Temporal's API, as an operator uses it by hand. Workflows are found by their type and task queue.
type temporal struct{ client.Client }

const namespace = "default"

func newTemporal(address string) (temporal, error) {
	c, err := client.NewLazyClient(client.Options{HostPort: address, Namespace: namespace, Logger: silent{}})
	return temporal{c}, err
}

// silent drops what the SDK has to say about a server that is killed on purpose.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// running finds the workflows of a type that run in the first deployment.
func (t temporal) running(ctx context.Context, kind string) ([]*workflow.WorkflowExecutionInfo, error) {
	query := fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND TaskQueue STARTS_WITH 'millrace-'", kind)
	resp, err := t.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace, Query: query})
	if err != nil {
		return nil, err
	}
	return resp.Executions, nil
}

// runs is a check that a workflow of the type runs.
func (t temporal) runs(kind string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := t.one(ctx, kind, 0)
		return err
	}
}

func (t temporal) one(ctx context.Context, kind string, index int) (*common.WorkflowExecution, error) {
	all, err := t.running(ctx, kind)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no workflow of type %s is running", kind)
	}
	return all[index%len(all)].Execution, nil
}

// terminate terminates one of the workflows of a type.
func (t temporal) terminate(ctx context.Context, kind string, index int) (id string, err error) {
	execution, err := t.one(ctx, kind, index)
	if err != nil {
		return "", err
	}
	return execution.WorkflowId, t.TerminateWorkflow(ctx, execution.WorkflowId, execution.RunId, "by a trial")
}

// forget deletes the workflow with its history; it ends, too.
func (t temporal) forget(ctx context.Context, kind string) error {
	execution, err := t.one(ctx, kind, 0)
	if err != nil {
		return err
	}
	_, err = t.WorkflowService().DeleteWorkflowExecution(ctx, &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: namespace, WorkflowExecution: execution,
	})
	return err
}
