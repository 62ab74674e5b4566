// Package gameworkers plays the games of all active runs in one process: a Temporal worker for each run's task queue.
// They share the process's slots for games as package gameslots decides. Start reading at Workers.
package gameworkers

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/control/gameslots"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/workflows"
)

// Workers serves the queue of every active run, all of them with slots of one pool, so that however many games of one
// run wait, those of another one find slots.
type Workers struct {
	Temporal   client.Client
	Queues     workflows.Queues
	Runs       activeRuns
	Activities *activities.Activities
	Slots      int               // games at a time
	Options    sdkworker.Options // of each worker
	Log        *slog.Logger

	pool    *slotPool
	playing map[rollout.RunName]*runWorker
	ending  sync.WaitGroup
}

// activeRuns is what Workers needs of the buffer.
type activeRuns interface {
	RecentlyActive(ctx context.Context) ([]runstatus.RunStatus, error)
}

// runWorker is the worker of one run's queue.
type runWorker struct {
	worker sdkworker.Worker
	wanted time.Time // when its run was last seen to go on
}

// How often the runs are looked at, and how long the queue of an ended or unknown run is still served: a Redis that was
// emptied learns of its runs again.
const (
	lookEvery = time.Second
	serveFor  = 30 * time.Second
)

// Run serves queues until ctx is done, and returns when the games have been let go of.
func (g *Workers) Run(ctx context.Context) error {
	g.pool, g.playing = newSlotPool(g.Slots), map[rollout.RunName]*runWorker{}
	defer g.stopAll()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if err := g.follow(ctx, time.Now()); err != nil && ctx.Err() == nil {
			g.Log.Warn("serve the queues of the runs' games", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// follow starts workers for the runs that go on and have none, and stops those of runs that do not. While the runs
// cannot be read, all stays as it is.
func (g *Workers) follow(ctx context.Context, now time.Time) error {
	runs, err := g.Runs.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := g.serve(run.Spec, now); err != nil {
			return err
		}
	}
	for run, served := range g.playing {
		if now.Sub(served.wanted) > serveFor {
			delete(g.playing, run)
			g.ending.Go(served.worker.Stop)
		}
	}
	return nil
}

func (g *Workers) serve(spec runspec.Spec, now time.Time) error {
	run, queue := spec.Name, g.Queues.Of(spec.Name).Games
	if served, ok := g.playing[run]; ok {
		served.wanted = now
		return nil
	}
	options := g.Options
	tuner, err := g.tuner(run, spec.Dispatch.Behind)
	if err != nil {
		return err
	}
	options.Tuner, options.DisableWorkflowWorker = tuner, true
	options.ActivityTaskPollerBehavior = sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: 1, MinimumNumberOfPollers: 1, MaximumNumberOfPollers: gameslots.MaxPolls,
	})
	w := sdkworker.New(g.Temporal, queue, options)
	w.RegisterActivity(g.Activities)
	if err := w.Start(); err != nil {
		return fmt.Errorf("task queue %s: %w", queue, err)
	}
	g.playing[run] = &runWorker{worker: w, wanted: now}
	return nil
}

// tuner gives a worker slots of the pool for games. It has nothing else to do; the SDK wants to know all the same.
func (g *Workers) tuner(run rollout.RunName, behind bool) (sdkworker.WorkerTuner, error) {
	idle, err := sdkworker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return sdkworker.NewCompositeTuner(sdkworker.CompositeTunerOptions{
		ActivitySlotSupplier: g.pool.of(run, behind),
		WorkflowSlotSupplier: idle, LocalActivitySlotSupplier: idle, NexusSlotSupplier: idle,
		SessionActivitySlotSupplier: idle,
	})
}

func (g *Workers) stopAll() {
	for _, served := range g.playing {
		g.ending.Go(served.worker.Stop)
	}
	g.ending.Wait()
}
