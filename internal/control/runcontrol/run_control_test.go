package runcontrol

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/workflows"
)

// temporal knows one workflow that has ended by itself, of a run that completed, or none.
type temporal struct {
	client.Client
	completed bool
}

func (m temporal) DescribeWorkflowExecution(context.Context, string, string) (
	*workflowservice.DescribeWorkflowExecutionResponse, error,
) {
	if !m.completed {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
		Status: enums.WORKFLOW_EXECUTION_STATUS_COMPLETED,
	}}, nil
}

func (m temporal) GetWorkflow(context.Context, string, string) client.WorkflowRun { return result{} }

func (m temporal) ExecuteWorkflow(context.Context, client.StartWorkflowOptions, any, ...any) (
	client.WorkflowRun, error,
) {
	return nil, nil
}

func (m temporal) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, serviceerror.NewNotFound("no such workflow is running")
}

type result struct{ client.WorkflowRun }

func (result) Get(_ context.Context, to any) error {
	return json.Unmarshal([]byte(`{"state":"completed","next_step":16}`), to)
}

// known is the statuses of runs by name.
type known struct {
	accounts
	states map[rollout.RunName]runstatus.RunState
}

func (k known) Status(_ context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	state, ok := k.states[run]
	if !ok {
		return runstatus.RunStatus{}, rollout.Refuse(rollout.NoSuchRun, "no run %s", run)
	}
	return runstatus.RunStatus{State: state}, nil
}

func TestARunThatHasEndedIsNotAnUnknownOne(t *testing.T) {
	t.Parallel()
	c := Control{Client: &workflows.Client{Temporal: temporal{}}, buffer: known{
		states: map[rollout.RunName]runstatus.RunState{"done": runstatus.RunCompleted, "lively": runstatus.RunRunning},
	}}
	gone := rollout.Refuse(rollout.NoSuchRun, "no workflow")
	for _, tt := range []struct {
		run  rollout.RunName
		err  error
		want rollout.RefusalCode
	}{
		{"done", gone, rollout.RunOver},
		{"lively", gone, rollout.Orphaned},
		{"nobody", gone, rollout.NoSuchRun},
		{"done", rollout.Refuse(rollout.Invalid, "depth 0"), rollout.Invalid},
	} {
		if got := c.ended(t.Context(), tt.run, tt.err); !rollout.Refused(got, tt.want) {
			t.Errorf("%s, %v: got %v, want %s", tt.run, tt.err, got, tt.want)
		}
	}
	if err := c.ended(t.Context(), "done", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// A run has completed step 15, the last, and Redis comes back as it was when step 14 was in training: until the keeper
// of runs has repaired the account, nobody who starts, resumes or stops the run may let it go on from there.
func TestAnEndedRunDoesNotGoOnWhereAnOlderRedisHasIt(t *testing.T) {
	t.Parallel()
	older := &keeps{known: known{states: map[rollout.RunName]runstatus.RunState{"demo": runstatus.RunRunning}}}
	c := Control{Client: &workflows.Client{Temporal: temporal{completed: true}}, buffer: older}
	status, created, err := c.Start(t.Context(), runspec.Spec{Name: "demo"})
	if err != nil || created || status.State != runstatus.RunCompleted || status.NextStep != 16 {
		t.Errorf("started again, it is %s at step %d: %v", status.State, status.NextStep, err)
	}
	if _, err := c.Change(t.Context(), "demo", spec.Change{Paused: new(false)}); !rollout.Refused(err, rollout.RunOver) {
		t.Errorf("resumed: %v", err)
	}
	go older.repair()
	if status, err := c.Stop(t.Context(), "demo", "enough"); err != nil || status.State != runstatus.RunCompleted {
		t.Errorf("stopped, it is %s: %v", status.State, err)
	}
}

// keeps fails a test whose run is revived or ended, for its embedded accounts are nil.
type keeps struct {
	mu sync.Mutex
	known
}

func (k *keeps) Open(context.Context, runspec.Spec) error { return nil }

func (k *keeps) Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known.Status(ctx, run)
}

func (k *keeps) repair() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.states["demo"] = runstatus.RunCompleted
}
