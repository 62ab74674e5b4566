package worker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/fleetsync"
	"github.com/millrace/millrace/internal/gameslots"
	"github.com/millrace/millrace/internal/rollout"
)

// gameQueues plays the games of every run that goes on: a Temporal worker for each one's task queue, all of them with
// slots of one pool, so that however many games of one run wait, those of another one find slots.
type gameQueues struct {
	temporal client.Client
	queue    func(rollout.RunName) string
	shared   string // the queue of all runs that were begun by versions without queues of their own
	runs     fleetsync.ActiveRuns
	acts     *activities.Activities
	pool     *slotPool
	options  sdkworker.Options
	log      *slog.Logger

	playing map[rollout.RunName]*runGames
	ending  sync.WaitGroup
}

// runGames is the worker of one run's queue.
type runGames struct {
	worker sdkworker.Worker
	wanted time.Time // when its run was last seen to go on
}

// sharedQueue stands in the pool for the runs of the shared queue, which are one party in it.
const sharedQueue rollout.RunName = ""

// How often the runs are looked at, and how long a queue is still served when its run has ended or is not known any
// more: a Redis that was emptied is told again.
const (
	gamesEvery  = time.Second
	gamesLinger = 30 * time.Second
)

// run serves queues until ctx is done, and returns when the games have been let go of.
func (g *gameQueues) run(ctx context.Context) error {
	defer g.stopAll()
	ticker := time.NewTicker(gamesEvery)
	defer ticker.Stop()
	for {
		if err := g.follow(ctx, time.Now()); err != nil && ctx.Err() == nil {
			g.log.Warn("serve the queues of the runs' games", "error", err)
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
func (g *gameQueues) follow(ctx context.Context, now time.Time) error {
	if err := g.serve(sharedQueue, g.shared, now); err != nil {
		return err
	}
	runs, err := g.runs.Active(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := g.serve(run.Spec.Name, g.queue(run.Spec.Name), now); err != nil {
			return err
		}
	}
	for run, served := range g.playing {
		if now.Sub(served.wanted) > gamesLinger {
			delete(g.playing, run)
			g.ending.Go(served.worker.Stop)
		}
	}
	return nil
}

func (g *gameQueues) serve(run rollout.RunName, queue string, now time.Time) error {
	if served, ok := g.playing[run]; ok {
		served.wanted = now
		return nil
	}
	options := g.options
	tuner, err := g.tuner(run)
	if err != nil {
		return err
	}
	options.Tuner, options.DisableWorkflowWorker = tuner, true
	options.ActivityTaskPollerBehavior = sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{
		InitialNumberOfPollers: 1, MinimumNumberOfPollers: 1, MaximumNumberOfPollers: gameslots.MaxPolls,
	})
	w := sdkworker.New(g.temporal, queue, options)
	w.RegisterActivity(g.acts)
	if err := w.Start(); err != nil {
		return fmt.Errorf("task queue %s: %w", queue, err)
	}
	g.playing[run] = &runGames{worker: w, wanted: now}
	return nil
}

// tuner gives a worker slots of the pool for games. It has nothing else to do; the SDK wants to know all the same.
func (g *gameQueues) tuner(run rollout.RunName) (sdkworker.WorkerTuner, error) {
	idle, err := sdkworker.NewFixedSizeSlotSupplier(1)
	if err != nil {
		return nil, err
	}
	return sdkworker.NewCompositeTuner(sdkworker.CompositeTunerOptions{
		ActivitySlotSupplier: g.pool.of(run),
		WorkflowSlotSupplier: idle, LocalActivitySlotSupplier: idle, NexusSlotSupplier: idle, SessionActivitySlotSupplier: idle,
	})
}

func (g *gameQueues) stopAll() {
	for _, served := range g.playing {
		g.ending.Go(served.worker.Stop)
	}
	g.ending.Wait()
}
