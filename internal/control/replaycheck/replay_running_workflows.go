// Package replaycheck replays what is going on before a worker takes any of its tasks: a worker that would do something
// else than was done must not touch it. Start reading at Check.
package replaycheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/workflows"
)

// ErrIncompatible is returned by a worker that has not begun, because it could not go on with what another version
// of the program has begun.
var ErrIncompatible = errors.New("this version cannot go on with what is running")

// Rule decides what a worker does if it cannot continue running workflows; Refuse when it is empty.
type Rule string

// The rules: end with an error, log one and go on, or not look.
const (
	Refuse Rule = "refuse"
	Warn   Rule = "warn"
	Off    Rule = "off"
)

// Check checks a version of the workflows against the running ones. A fault that it misses is found by Temporal's own
// check of each task: nothing is lost, but the run is held up.
type Check struct {
	Temporal client.Client
	Queue    string                          // of the workflows
	Version  []interceptor.WorkerInterceptor // of the worker
	Log      *slog.Logger
}

// Bounds of a check. All runs and the fleet's workflows are checked, as far as the time allows. Groups are many and
// alike, so only the newest are.
const (
	checkTime     = 30 * time.Second
	checkedGroups = 64
)

// kind is one type of workflow. The newest most of it are checked; 0: all.
type kind struct {
	name string
	most int
}

// kinds is the workflows that are looked at: every one that a worker registers.
var kinds = []kind{{"Run", 0}, {"Fleet", 0}, {"FleetScaling", 0}, {"Group", checkedGroups}}

// Require does what the configuration says about a worker that cannot go on with what is running. Temporal must answer.
func (c Check) Require(ctx context.Context, rule Rule) error {
	if rule == Off {
		return nil
	}
	begun := time.Now()
	checked, err := c.Run(ctx)
	switch {
	case err == nil:
		c.Log.Info("this version can go on with what is running", "workflows", checked, "seconds",
			time.Since(begun).Seconds())
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, ErrIncompatible):
		c.Log.Warn("cannot tell whether this version can go on with all that is running; Temporal checks each task",
			"workflows", checked, "error", err)
		return nil
	case rule == Warn:
		c.Log.Error(err.Error())
		return nil
	}
	return err
}

// Run tells how many running workflows were replayed before it met one that this version cannot go on with.
func (c Check) Run(ctx context.Context) (checked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{Interceptors: c.Version})
	if err != nil {
		return 0, fmt.Errorf("prepare to replay: %w", err)
	}
	workflows.Register(replayer)
	for _, k := range kinds {
		running, err := c.running(ctx, k.name, k.most)
		if err != nil {
			return checked, err
		}
		for _, w := range running {
			h, err := c.history(ctx, w)
			if err != nil {
				return checked, err
			}
			if h == nil {
				continue
			}
			if err := replayer.ReplayWorkflowHistory(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), h); err != nil {
				return checked, incompatible(w.id, err)
			}
			checked++
		}
	}
	return checked, nil
}

func incompatible(id string, err error) error {
	return fmt.Errorf("%w: %s was begun by another version and does not replay with this one: %w; "+
		"start the version that it was begun with, or let it end first (docs/upgrades.md)", ErrIncompatible, id, err)
}

// execution is one running workflow.
type execution struct{ id, run string }

// running lists the running workflows of a kind on the worker's queue, newest first.
func (c Check) running(ctx context.Context, kind string, most int) ([]execution, error) {
	var out []execution
	for page := []byte(nil); ; {
		list, err := c.Temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = "+
				"'Running'", kind, c.Queue),
			NextPageToken: page,
		})
		if err != nil {
			return nil, fmt.Errorf("list running workflows: %w", err)
		}
		for _, info := range list.GetExecutions() {
			out = append(out, execution{info.GetExecution().GetWorkflowId(), info.GetExecution().GetRunId()})
			if len(out) == most {
				return out, nil
			}
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return out, nil
		}
	}
}

// history is a workflow's history; nil when it is gone, or has not begun.
func (c Check) history(ctx context.Context, w execution) (*history.History, error) {
	h := &history.History{}
	for it := c.Temporal.GetWorkflowHistory(ctx, w.id, w.run, false,
		enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", w.id, err)
		}
		h.Events = append(h.Events, event)
	}
	if h = workflows.CompletedPrefix(h); len(h.Events) == 0 {
		return nil, nil
	}
	return h, nil
}
