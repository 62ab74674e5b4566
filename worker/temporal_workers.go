package worker

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/control/gameslots"
	"github.com/millrace/millrace/internal/control/gameworkers"
	"github.com/millrace/millrace/internal/control/replaycheck"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/worker/memorylimit"
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

// keeperEvery bounds how long a deployment is without the workflow that keeps its fleet and finds lost runs, when
// somebody has ended that workflow or Temporal has lost it, and a worker is alive.
const keeperEvery = 10 * time.Second

// keepKeepers sees to it that the workflows run that keep and that scale the fleet, until ctx is done.
func keepKeepers(ctx context.Context, b *connections.Set, scale *fleetScaling) error {
	keeper := retry.Outage{Log: b.Log, Down: "start the fleet's keeper", Up: "the fleet's keeper can be started again"}
	scaling := retry.Outage{Log: b.Log, Down: "scale the fleet", Up: "the fleet can be scaled again"}
	for {
		wait := keeperEvery
		kept, scaled := b.Control.EnsureFleet(ctx), scale.ensure(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		keeper.Note(time.Now(), kept)
		scaling.Note(time.Now(), scaled)
		if kept != nil {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-scale.changed:
		case <-time.After(wait):
		}
	}
}

// slotsUnknown is how many slots a worker has where it is not known how much memory it may use.
const slotsUnknown = 1000

// chooseSlots is how many games a worker plays at a time, and why: as many as it was told, or as fit into its memory.
func chooseSlots(configured int) (slots int, from string) {
	if configured > 0 {
		return configured, "worker.games"
	}
	memory, known := memorylimit.Find(os.DirFS("/"), debug.SetMemoryLimit(-1))
	if !known {
		return slotsUnknown, "the default where memory is not known"
	}
	return gameslots.Fitting(memory.Bytes, memory.Shared), fmt.Sprintf("%s, %s", units.Bytes(memory.Bytes), memory.From)
}
