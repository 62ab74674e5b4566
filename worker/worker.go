package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdkworker "go.temporal.io/sdk/worker"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/adapterfiles"
	"github.com/millrace/millrace/internal/dispatch"
	"github.com/millrace/millrace/internal/dispatch/live"
	"github.com/millrace/millrace/internal/enginediscovery"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/version"
)

// Run runs a worker process until ctx is done: it executes workflows and activities, dispatches requests to the
// engines and announces itself to the other workers. It returns when everything in it has ended.
func Run(ctx context.Context, cfg config.Service, logger *slog.Logger) error {
	return run(ctx, cfg, logger, usualEnds)
}

// run is Run at a pace, of this version of the workflows or of another one, as interceptors make it.
func run(ctx context.Context, cfg config.Service, logger *slog.Logger, pace endsPace, version ...interceptor.WorkerInterceptor) error {
	backend, err := Open(ctx, cfg, logger)
	if err != nil {
		return err
	}
	defer backend.Close()
	sinks, err := OpenSinks(ctx, cfg, backend)
	if err != nil {
		return err
	}
	defer sinks.Close()

	clients, err := newEngineClients(cfg)
	if err != nil {
		return err
	}
	starts := newStarts(backend.Buffer, logger)
	id := processID()
	dispatcher := live.New(live.Config{
		Scheduler:   dispatch.Config{MaxQueued: cfg.Worker.DispatchQueue},
		Clients:     func(e rollout.Engine) live.Engine { return clients.mustGet(e) },
		Emit:        sinks,
		Worker:      id,
		SampleEvery: 2 * time.Second,
		OnDispatch:  starts.note,
	})
	files := adapterfiles.NewReader()
	engines, err := newEngines(cfg, backend, clients, files, sinks)
	if err != nil {
		return err
	}
	acts := &activities.Activities{
		Buffer:       backend.Buffer,
		Fleet:        engines,
		Groups:       backend.Control,
		Files:        files,
		Policy:       dispatcher,
		Environments: Environments(),
		Emit:         sinks,
		Now:          time.Now,
		Log:          logger,
	}
	acts.Ends = &ends{
		control: newControl(backend), backend: backend, emit: sinks, retention: cfg.Retention.Std(), pace: pace, log: logger,
	}
	if err := activities.Validate(acts); err != nil {
		return err
	}
	member := membership{
		id: id, self: describeSelf(id, cfg.Worker.Games), playing: acts.Playing.ByRun, registry: backend.Workers, fleet: backend.Registry, runs: backend.Buffer, dispatcher: dispatcher, log: logger, ruled: map[rollout.RunName]bool{},
	}

	pool := newSlotPool(cfg.Worker.Games)
	probes := newProbes(backend, cfg.Worker.Games, acts.Playing.ByRun)

	g, ctx := errgroup.WithContext(ctx)
	// What games stand on lives until they have been let go of, so that none of them fails because its worker is
	// told to end.
	beneath, end := context.WithCancel(context.WithoutCancel(ctx))
	g.Go(func() error { return dispatcher.Run(beneath) })
	g.Go(func() error { return starts.run(beneath) })
	g.Go(func() error { return member.run(beneath) })
	g.Go(func() error { return newGuard(backend, cfg.Redis.Prefix, id).run(ctx) })
	g.Go(func() error { return acts.Hanging.Tend(ctx) })
	g.Go(func() error { return probes.serve(ctx, cfg.Worker.Listen) })
	g.Go(func() error {
		defer end()
		return serveTemporal(ctx, cfg, backend, acts, pool, &probes.polling, version)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// serveTemporal executes workflows and short activities on one task queue, and games on one for each run, until ctx
// is done. Games have slots of their own, so that hundreds of them, which mostly wait, never hold up the rest.
// polling is true while it asks for work.
func serveTemporal(
	ctx context.Context, cfg config.Service, b *Backend, acts *activities.Activities, pool *slotPool, polling *atomic.Bool,
	version []interceptor.WorkerInterceptor,
) error {
	fatal := make(chan error, 1)
	common := sdkworker.Options{
		WorkflowTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: sdkworker.NewPollerBehaviorAutoscaling(sdkworker.PollerBehaviorAutoscalingOptions{}),
		WorkerStopTimeout:          stopTimeout,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default: // one is enough
			}
		},
		Interceptors: version,
	}
	queues := b.Control.Deployment.Queues()
	control := func() sdkworker.Worker {
		w := sdkworker.New(b.Control.Temporal, queues.Control, common)
		registerWorkflows(w)
		w.RegisterActivity(acts)
		return w
	}
	games := games{
		temporal: b.Control.Temporal, shared: queues.Games, runs: b.Buffer, acts: acts, pool: pool, options: common, log: b.Log,
		queue:   func(run rollout.RunName) string { return queues.Of(run).Games },
		playing: map[rollout.RunName]*runGames{},
	}

	if err := awaitTemporal(ctx, b); err != nil {
		return err
	}
	if err := (preflight{b.Control.Temporal, queues.Control, version, b.Log}).require(ctx, cfg.Worker.Preflight); err != nil {
		return err
	}
	w, err := startWhenThere(ctx, control, b.Log)
	if err != nil {
		return err
	}
	defer w.Stop()
	polling.Store(true)
	defer polling.Store(false)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return games.run(ctx) })
	g.Go(func() error { return keepKeeper(ctx, b) })
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

// awaitTemporal waits for the server as long as it takes: it may come up later.
func awaitTemporal(ctx context.Context, b *Backend) error {
	for {
		_, err := b.Control.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		b.Log.Warn("temporal does not answer yet", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// startWhenThere starts a Temporal worker and waits for the server as long as it takes: it may have gone again.
// Each try builds a worker anew, because the SDK's remember why they could not start, and say so for ever.
func startWhenThere(ctx context.Context, build func() sdkworker.Worker, log *slog.Logger) (sdkworker.Worker, error) {
	for {
		w := build()
		err := w.Start()
		if err == nil {
			return w, nil
		}
		log.Warn("temporal does not answer yet", "error", err)
		if err := pause(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// keeperEvery bounds how long a deployment is without the workflow that keeps its fleet and finds lost runs, when
// somebody has ended that workflow or Temporal has lost it, and a worker is alive.
const keeperEvery = 10 * time.Second

// keepKeeper sees to it that the workflow runs that keeps the fleet, until ctx is done.
func keepKeeper(ctx context.Context, b *Backend) error {
	for {
		wait := keeperEvery
		if err := b.Control.EnsureFleet(ctx); err != nil && ctx.Err() == nil {
			b.Log.Warn("start the fleet's keeper", "error", err)
			wait = time.Second
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// processID names this process among the workers, readable and unique.
func processID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(salt[:]))
}

// describeSelf is what people are told of this process.
func describeSelf(id string, slots int) rollout.Worker {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return rollout.Worker{ID: id, Host: host, Version: version.String(), StartedAt: time.Now().UTC(), Slots: slots}
}

// engines is the fleet as activities see it.
type engines struct {
	*fleet.Registry
	keeper  *fleet.Keeper
	clients *engineClients
	loader  fleet.Loader
}

func newEngines(cfg config.Service, b *Backend, clients *engineClients, files *adapterfiles.Reader, emit telemetry.Emitter) (*engines, error) {
	loader := fleet.Loader{Records: b.Registry, Files: files}
	complain := func(err error) { b.Log.Warn("tend the fleet", "error", err) }
	var follow func(context.Context)
	if cfg.EnginesFrom != "" {
		source, err := enginediscovery.ParseSource(cfg.EnginesFrom)
		if err != nil {
			return nil, err
		}
		follow = enginediscovery.Follower{Source: source, Registry: b.Registry, Complain: complain}.Run
	}
	return &engines{
		Registry: b.Registry,
		clients:  clients,
		loader:   loader,
		keeper: fleet.NewKeeper(fleet.KeeperConfig{
			Registry: b.Registry, Sampler: b.Sampler, Emit: emit, Loader: loader,
			Client:   func(e rollout.Engine) fleet.Client { return clients.mustGet(e) },
			Follow:   follow,
			Complain: complain,
		}),
	}, nil
}

// Keep tends the fleet until ctx is done.
func (e *engines) Keep(ctx context.Context, beat func()) error { return e.keeper.Keep(ctx, beat) }

// Unload takes an adapter off one engine, and verifies that it is gone.
func (e *engines) Unload(ctx context.Context, id rollout.EngineID, name string) error {
	engine, err := e.Get(ctx, id)
	if rollout.Refused(err, rollout.NoSuchEngine) {
		return nil
	}
	if err != nil {
		return err
	}
	client, err := e.clients.get(engine)
	if err != nil {
		return rollout.Fail(rollout.Permanent, "engine_address", err)
	}
	return e.loader.Unload(ctx, client, id, name)
}

// Load loads an adapter on one engine, and lets requests for it go there at once.
func (e *engines) Load(ctx context.Context, id rollout.EngineID, a fleet.Adapter) (float64, error) {
	engine, err := e.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	client, err := e.clients.get(engine)
	if err != nil {
		return 0, rollout.Fail(rollout.Permanent, "engine_address", err)
	}
	sec, err := e.loader.Load(ctx, client, id, a)
	if err != nil {
		return sec, err
	}
	return sec, e.Loaded(ctx, id, a.Name)
}
