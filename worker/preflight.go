package worker

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

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/workflows"
)

// ErrIncompatible is returned by a worker that has not begun, because it could not go on with what another version
// of the program has begun.
var ErrIncompatible = errors.New("this version cannot go on with what is running")

// preflight replays what is going on, before the worker takes any of its tasks: a worker that would do something
// else than was done must not touch it. What it finds out late, from Temporal's own check of each task, loses
// nothing either, but holds the run up.
type preflight struct {
	temporal client.Client
	queue    string
	version  []interceptor.WorkerInterceptor
	log      *slog.Logger
}

// Bounds of a preflight. Runs and the fleet are all looked at, as far as the time allows; groups are many and
// alike, so the newest stand for all.
const (
	preflightTime   = 30 * time.Second
	preflightGroups = 64
)

// require does what the configuration says about a worker that cannot go on with what is running. Temporal must answer.
func (p preflight) require(ctx context.Context, rule config.Preflight) error {
	if rule == config.PreflightOff {
		return nil
	}
	begun := time.Now()
	checked, err := p.check(ctx)
	switch {
	case err == nil:
		p.log.Info("this version can go on with what is running", "workflows", checked, "seconds", time.Since(begun).Seconds())
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.Is(err, ErrIncompatible):
		p.log.Warn("cannot tell whether this version can go on with all that is running; Temporal checks each task", "workflows", checked, "error", err)
		return nil
	case rule == config.PreflightWarn:
		p.log.Error(err.Error())
		return nil
	}
	return err
}

// check tells how many running workflows were replayed before it met one that this version cannot go on with.
func (p preflight) check(ctx context.Context) (checked int, err error) {
	ctx, cancel := context.WithTimeout(ctx, preflightTime)
	defer cancel()
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{Interceptors: p.version})
	if err != nil {
		return 0, fmt.Errorf("prepare to replay: %w", err)
	}
	registerWorkflows(replayer)
	for _, kind := range []struct {
		name string
		most int // 0: all
	}{{"Run", 0}, {"Fleet", 0}, {"Group", preflightGroups}} {
		running, err := p.running(ctx, kind.name, kind.most)
		if err != nil {
			return checked, err
		}
		for _, w := range running {
			h, err := p.history(ctx, w)
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
func (p preflight) running(ctx context.Context, kind string, most int) ([]execution, error) {
	var out []execution
	for page := []byte(nil); ; {
		list, err := p.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Query:         fmt.Sprintf("WorkflowType = '%s' AND TaskQueue = '%s' AND ExecutionStatus = 'Running'", kind, p.queue),
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

// history is what a workflow has done; nil when it is gone, or has not begun.
func (p preflight) history(ctx context.Context, w execution) (*history.History, error) {
	h := &history.History{}
	for it := p.temporal.GetWorkflowHistory(ctx, w.id, w.run, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
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

// registerWorkflows makes this version's workflows known to a worker or a replayer.
func registerWorkflows(to interface{ RegisterWorkflow(any) }) {
	to.RegisterWorkflow(workflows.Run)
	to.RegisterWorkflow(workflows.Group)
	to.RegisterWorkflow(workflows.Fleet)
}
