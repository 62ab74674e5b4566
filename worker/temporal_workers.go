package worker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/control/gameworkers"
	"github.com/millrace/millrace/internal/control/replaycheck"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/worker/workerconfig"
	"github.com/millrace/millrace/workflows"
)

// serveTemporal executes workflows and short activities on one task queue, and games on one for each run, until ctx
// is done. Games have slots of their own, so that hundreds of them, which mostly wait, never hold up the rest.
// polling is true while it asks for work; Temporal calls it what the registry of workers does.
func serveTemporal(
	ctx context.Context, cfg workerconfig.Config, b *connections.Set, acts *activities.Activities, scale *fleetScaling,
	polling *atomic.Bool, self string, version []interceptor.WorkerInterceptor,
) error {
	fatal := make(chan error, 1)
	common := sdkworker.Options{
		WorkflowTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
		WorkerStopTimeout:          stopTimeout,
		Identity:                   self,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default: // one is enough
			}
		},
		Interceptors: append([]interceptor.WorkerInterceptor{&workflows.Summaries{}}, version...),
	}
	queues := b.Control.Deployment.Queues()
	control := func() sdkworker.Worker {
		w := sdkworker.New(b.Control.Temporal, queues.Control, common)
		workflows.Register(w)
		w.RegisterActivity(acts)
		return w
	}
	games := gameworkers.Workers{
		Temporal: b.Control.Temporal, Queues: queues, Runs: b.Buffer, Activities: acts, Slots: cfg.Worker.Games,
		Options: common, Log: b.Log,
	}
	replays := replaycheck.Check{Temporal: b.Control.Temporal, Queue: queues.Control, Version: version, Log: b.Log}

	start := temporalStart{&retry.Outage{Log: b.Log, Down: "temporal does not answer yet", Up: "temporal answers"}}
	if err := start.await(ctx, b.Control.Reachable); err != nil {
		return err
	}
	if err := replays.Require(ctx, replaycheck.Rule(cfg.Worker.Preflight)); err != nil {
		return err
	}
	w, err := start.worker(ctx, control)
	if err != nil {
		return err
	}
	defer w.Stop()
	if scale.acts != nil {
		scaling, err := start.worker(ctx, func() sdkworker.Worker { return scale.worker(common) })
		if err != nil {
			return err
		}
		defer scaling.Stop()
	}
	polling.Store(true)
	defer polling.Store(false)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return games.Run(ctx) })
	g.Go(func() error { return keepKeepers(ctx, b, scale) })
	g.Go(func() error { b.Control.Attributes.Keep(ctx); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-fatal:
			return fmt.Errorf("temporal worker: %w", err)
		}
	})
	return g.Wait()
}

// stopTimeout is how long activities in progress get when the worker is told to stop; games save their last phase
// long before and go on elsewhere.
const stopTimeout = 2 * time.Second

// startPause is how long a worker waits between two tries to reach Temporal.
const startPause = time.Second

// temporalStart is how a worker begins on Temporal. It waits for it as long as it takes: it may come up later, or have
// gone again.
type temporalStart struct {
	outage *retry.Outage
}

// await returns when Temporal answers, or ctx is done.
func (s *temporalStart) await(ctx context.Context, reach func(context.Context) error) error {
	_ = s.until(ctx, reach) // it fails only when ctx is done
	return ctx.Err()
}

// worker starts a Temporal worker. Each try builds one again, because the SDK's remember why they could not start, and
// say so forever.
func (s *temporalStart) worker(ctx context.Context, build func() sdkworker.Worker) (w sdkworker.Worker, err error) {
	err = s.until(ctx, func(context.Context) error {
		w = build()
		return w.Start()
	})
	if err != nil {
		return nil, ctx.Err()
	}
	return w, nil
}

func (s *temporalStart) until(ctx context.Context, try func(context.Context) error) error {
	return retry.Until(ctx, startPause, func(ctx context.Context) error {
		err := try(ctx)
		if ctx.Err() == nil {
			s.outage.Note(time.Now(), err)
		}
		return err
	})
}
