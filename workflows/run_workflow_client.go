package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/run/runmachine"
)

// Client is how the rest of the program speaks to the workflows. Its errors are refusals where the answer is no, and
// Unavailable where Temporal does not answer in time; every call has a total deadline.
type Client struct {
	Temporal   client.Client
	Namespace  string
	Deployment Deployment
	// Attributes are the search attributes of runs and groups; nil: workflows are started without any.
	Attributes *SearchAttributes
	Page       string // address of the operator's page, to which workflows link; empty: to none
}

// callTimeout bounds every call but a publication, which lasts as long as engines load.
const (
	callTimeout    = 15 * time.Second
	publishTimeout = 3 * time.Minute
)

// Start starts a run, once: the same spec again answers the run that is there, another spec under the same name
// is a conflict. created tells which.
func (c *Client) Start(ctx context.Context, s runspec.Spec) (status runstatus.RunStatus, created bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := c.EnsureFleet(ctx); err != nil {
		return status, false, err
	}
	begun := runmachine.NewRun(s, time.Now()).Status()
	err = c.startRun(ctx, client.StartWorkflowOptions{
		ID:                    c.Deployment.RunID(s.Name),
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Memo:                  map[string]any{"spec": s, "spec_hash": spec.Hash(s)},
	}, begun, RunInput{Spec: s, Deployment: c.Deployment})
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		return c.existing(ctx, s)
	}
	if err != nil {
		return status, false, c.failed("start run", s.Name, err)
	}
	return begun, true, nil
}

// startRun starts a run's workflow as one that Temporal lists and describes. Where the namespace has lost an attribute
// since it was looked at, the run does without.
func (c *Client) startRun(
	ctx context.Context, options client.StartWorkflowOptions, s runstatus.RunStatus, in RunInput,
) error {
	options.TaskQueue = c.Deployment.Queues().Control
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	options.Priority = fairness(s.Spec.Name)
	c.describe(&options, s)
	_, err := c.Temporal.ExecuteWorkflow(ctx, options, Run, in)
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) && options.TypedSearchAttributes.Size() > 0 {
		options.TypedSearchAttributes = temporal.SearchAttributes{}
		_, err = c.Temporal.ExecuteWorkflow(ctx, options, Run, in)
	}
	return err
}

// existing answers a second start: the memo holds the hash of the spec that the run was started with.
func (c *Client) existing(ctx context.Context, s runspec.Spec) (runstatus.RunStatus, bool, error) {
	var status runstatus.RunStatus
	desc, err := c.latest(ctx, c.Deployment.RunID(s.Name))
	if err != nil {
		return status, false, c.failed("describe run", s.Name, err)
	}
	memo := desc.GetWorkflowExecutionInfo().GetMemo().GetFields()
	var hash string
	if err := json.Unmarshal(memo["spec_hash"].GetData(), &hash); err != nil || hash != spec.Hash(s) {
		return status, false, rollout.Refuse(rollout.Conflict,
			"run %s already exists with another spec; choose another name, or change the running one with: "+
				"millrace run set %s KEY=VALUE", s.Name, s.Name)
	}
	status, err = c.Status(ctx, s.Name)
	return status, false, err
}

// Status asks the run itself. A run that is over answers its last status.
func (c *Client) Status(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var status runstatus.RunStatus
	answer, err := c.Temporal.QueryWorkflow(ctx, c.Deployment.RunID(run), "", QueryStatus)
	if err != nil {
		return status, c.failed("ask run", run, err)
	}
	err = answer.Get(&status)
	return status, err
}

// Change changes a running run.
func (c *Client) Change(ctx context.Context, run rollout.RunName, change spec.Change) (runstatus.RunStatus, error) {
	var status runstatus.RunStatus
	err := c.update(ctx, callTimeout, run, UpdateChange, &status, change)
	return status, err
}

// Probe begins a load probe of a running run.
func (c *Client) Probe(
	ctx context.Context, run rollout.RunName, probe runstatus.LoadProbeRequest,
) (runstatus.RunStatus, error) {
	var status runstatus.RunStatus
	err := c.update(ctx, callTimeout, run, UpdateProbe, &status, probe)
	return status, err
}

// Stop ends a run; games in progress are cancelled.
func (c *Client) Stop(ctx context.Context, run rollout.RunName, reason string) (runstatus.RunStatus, error) {
	var status runstatus.RunStatus
	err := c.update(ctx, callTimeout, run, UpdateStop, &status, reason)
	return status, err
}

// Publish loads a version on the engines and switches to it; it returns when it serves or is rejected.
func (c *Client) Publish(
	ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string, by rollout.TrainerGeneration,
) (runstatus.Policy, error) {
	var policy runstatus.Policy
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	wish := Publication{Version: v, Path: path, Generation: by}
	err := c.update(ctx, publishTimeout, run, UpdatePublish, &policy, wish)
	if rollout.Refused(err, rollout.Unavailable) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = rollout.Refuse(rollout.Unavailable,
			"version %d of %s does not serve yet, after %v; publish it again to go on waiting", v, run, publishTimeout)
	}
	return policy, err
}

// BufferChanged tells the run that a batch was formed or a step completed, with the account's mark; the zero mark means
// unknown. Temporal keeps it before this returns, with or without a worker.
func (c *Client) BufferChanged(ctx context.Context, run rollout.RunName, mark runstatus.Mark) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var body any
	if mark.Serial > 0 {
		body = mark
	}
	if err := c.Temporal.SignalWorkflow(ctx, c.Deployment.RunID(run), "", SignalBufferChanged, body); err != nil {
		return c.failed("tell run", run, err)
	}
	return nil
}

// Mark is how far the run knows its account to have come. It needs a worker.
func (c *Client) Mark(ctx context.Context, run rollout.RunName) (runstatus.Mark, error) {
	var mark runstatus.Mark
	answer, err := c.Temporal.QueryWorkflow(ctx, c.Deployment.RunID(run), "", QueryMark)
	if err != nil {
		return mark, c.failed("ask run", run, err)
	}
	err = answer.Get(&mark)
	return mark, err
}

// Reachable is nil when Temporal answers.
func (c *Client) Reachable(ctx context.Context) error {
	_, err := c.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
	return err
}

func (c *Client) update(
	ctx context.Context, timeout time.Duration, run rollout.RunName, name string, result any, args ...any,
) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := c.updateWorkflow(ctx, c.Deployment.RunID(run), name, result, args...); err != nil {
		return c.failed(name, run, err)
	}
	return nil
}

// updateWorkflow sends an update to a workflow until it is taken, and waits for its answer.
func (c *Client) updateWorkflow(ctx context.Context, id, name string, result any, args ...any) error {
	send := func() error {
		handle, err := c.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: id, UpdateName: name, Args: args, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		if err != nil {
			return err
		}
		return handle.Get(ctx, result)
	}
	err := send()
	for notTaken(err) && retry.Pause(ctx, notTakenPause) == nil {
		err = send()
	}
	return err
}

// notTakenPause is how long Temporal has for the workflow task that comes next.
const notTakenPause = 100 * time.Millisecond

// notTaken reports whether a workflow task failed that had the update in it, and no history has the update: Temporal
// does that to a task in which a workflow ends its execution while something else comes for it.
func notTaken(err error) bool {
	var notReady *serviceerror.WorkflowNotReady
	return errors.As(err, &notReady)
}

// failed makes Temporal's errors ours. What is not done for any run has an empty one.
func (c *Client) failed(doing string, run rollout.RunName, err error) error {
	doing = strings.TrimSpace(doing + " " + string(run))
	if answer := refused(err); rolloutRefusal(answer) {
		return answer
	}
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return rollout.Refuse(rollout.NoSuchRun, "run %s is not active; see: millrace run list", run)
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	// The cause may name addresses of what stands behind the service: it is for the log.
	unavailable := rollout.Refuse(rollout.Unavailable,
		"%s: Temporal does not answer; claims and records go on meanwhile, try this again", doing)
	return fmt.Errorf("%w: %w", unavailable, err)
}

func rolloutRefusal(err error) bool {
	var r *rollout.Refusal
	return errors.As(err, &r)
}

// latest describes the latest execution of a workflow; nil: there is none.
func (c *Client) latest(ctx context.Context, id string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	desc, err := c.Temporal.DescribeWorkflowExecution(ctx, id, "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return nil, nil
	}
	return desc, err
}

// running reports whether a workflow with this id is running.
func (c *Client) running(ctx context.Context, id string) (bool, error) {
	desc, err := c.latest(ctx, id)
	return desc.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, err
}
