// Package worker is the Temporal worker process: it builds what workflows and activities stand on. Start reading at
// Run.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/interceptor"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/control/runkeeper"
	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/live"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/fleetsync"
	"github.com/millrace/millrace/internal/engine/share/grouphomes"
	"github.com/millrace/millrace/internal/game/chatapi"
	"github.com/millrace/millrace/internal/game/environments"
	"github.com/millrace/millrace/internal/observe/otel"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/worker/workerconfig"
)

// Wiring is what a worker is given beside its configuration.
type Wiring struct {
	// Provider gets the engines of a fleet that is scaled, and gives them back; nil: nothing does, others go by the
	// number that is wanted.
	Provider provider.Provider
	// Engines names the provider's engines: workers that have another name for them must not look for them.
	Engines string
	// Changes calls apply with every other configuration that there is to take up, until ctx is done. After an error
	// it calls again soon. Nil: the configuration stays as it is.
	Changes func(ctx context.Context, apply func(workerconfig.Config) error)
}

// Run runs a worker process until ctx is done: it executes workflows and activities, dispatches requests to the
// engines and announces itself to the other workers. It returns when everything in it has ended.
func Run(ctx context.Context, cfg workerconfig.Config, given Wiring, logger *slog.Logger) error {
	return run(ctx, cfg, given, logger, runkeeper.DefaultPace())
}

// run is Run at a pace, of this version of the workflows or of another one, as interceptors make it.
func run(
	ctx context.Context, cfg workerconfig.Config, given Wiring, logger *slog.Logger, pace runkeeper.Pace,
	version ...interceptor.WorkerInterceptor,
) error {
	b, err := connections.Open(ctx, "millrace-worker", cfg.Config, logger)
	if err != nil {
		return err
	}
	defer b.Close()
	defer b.WriteEvents(ctx, cfg.Config)()

	clients, err := connections.NewEngineClients(cfg.Config, b.Otel)
	if err != nil {
		return err
	}
	starts := buffer.NewStartReporter(b.Buffer, logger)
	var slotsFrom string
	cfg.Worker.Games, slotsFrom = chooseSlots(cfg.Worker.Games)
	logger.Info("slots for games", "slots", cfg.Worker.Games, "from", slotsFrom)
	self := fleetsync.Self()
	self.Slots, self.SlotsFrom, self.Scales = cfg.Worker.Games, slotsFrom, cfg.Scaling != nil
	dispatchLog, err := openDispatchLog(cfg.Worker.DispatchLog, logger)
	if err != nil {
		return err
	}
	defer dispatchLog.close()
	dispatcher := live.New(live.Config{
		Log:         dispatchLog.writer,
		Scheduler:   dispatch.Config{MaxQueued: cfg.Worker.DispatchQueue, Worker: self.ID},
		Clients:     func(e enginestate.Engine) live.Engine { return traced(b.Otel, e, clients.MustGet(e)) },
		Emit:        b.Events,
		Worker:      self.ID,
		Homes:       grouphomes.New(b.Redis, cfg.Redis.Prefix),
		SampleEvery: 2 * time.Second,
		OnDispatch:  starts.Note,
	})
	files := adapterfiles.NewReader()
	scale := newFleetScaling(cfg.Scaling, given, b)
	current := newConfiguration(cfg, clients, scale)
	engines := newEngines(current, b, clients, files)
	acts := newActivities(b, dispatcher, engines, files, current, pace, logger)
	if err := activities.Validate(acts); err != nil {
		return err
	}
	inStep := fleetsync.Sync{
		Self: self, Playing: acts.GamesInPlay.ByRun, Models: acts.GamesInPlay.ByModel, Workers: b.Workers,
		Fleet: b.Registry.Registry, Runs: b.Buffer, Tokens: b.Tokens, Dispatcher: dispatcher, Log: logger,
	}
	metrics := processmetrics.NewWorker(cfg.Worker.Games, acts.GamesInPlay.ByRun, inStep.Described,
		append(processmetrics.WatchSink("store", b.StoreSink), b.TemporalMetrics)...)
	if err := b.Otel.Metrics(ctx, metrics); err != nil {
		return err
	}
	guard := fleet.NewRedisLossGuard(b.Redis, cfg.Redis.Prefix, self.ID, b.Registry.Registry, logger)
	health := newHealthEndpoints(b, metrics)

	return runAll(ctx,
		[]func(context.Context) error{dispatcher.Run, starts.Run, inStep.Run},
		[]func(context.Context) error{
			guard.Run, acts.HangingCalls.Watch,
			func(ctx context.Context) error { current.follow(ctx, given.Changes); return nil },
			func(ctx context.Context) error { return health.serve(ctx, cfg.Worker.Listen) },
		},
		func(ctx context.Context) error {
			return serveTemporal(ctx, cfg, b, acts, scale, &health.polling, self.ID, version)
		})
}

// runAll runs the parts of a process until its context is done or one of them fails. What games stand on (beneath)
// lives until they have been let go of, so that none of them fails because its worker is told to end.
func runAll(ctx context.Context, beneath, beside []func(context.Context) error,
	games func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	below, end := context.WithCancel(context.WithoutCancel(ctx))
	for _, part := range beneath {
		g.Go(func() error { return part(below) })
	}
	for _, part := range beside {
		g.Go(func() error { return part(ctx) })
	}
	g.Go(func() error {
		defer end()
		return games(ctx)
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// newActivities is what workflows ask for, on what this process has.
func newActivities(b *connections.Set, dispatcher *live.Dispatcher, engines *engines, files *adapterfiles.Reader,
	current *configuration, pace runkeeper.Pace, logger *slog.Logger) *activities.Activities {
	return &activities.Activities{
		Buffer:       b.Buffer,
		Fleet:        engines,
		Groups:       b.Control,
		Heartbeats:   b.Control.Temporal,
		Files:        files,
		Policy:       b.Otel.TracePolicy(chatapi.New(dispatcher, engines.clients.Settings, logger)),
		Environments: environments.Builder(engines.clients.Settings, b.Mail),
		Emit:         b.Events,
		Tell:         b.Events,
		Now:          time.Now,
		Log:          logger,
		DescribeGame: otel.DescribeGame,
		Ends: &runkeeper.Keeper{
			Control: b.Control, Buffer: b.Buffer, Events: b.Events, Pace: pace, Log: logger,
			Retention: func() runkeeper.Retention {
				cfg := current.now()
				return runkeeper.Retention{For: cfg.Retention.Std(), Runs: cfg.RetentionRuns}
			},
			Absent: &runkeeper.AbsentWorkers{Workers: b.Workers, Redis: b.Registry, Runs: b.Buffer, Groups: b.Control,
				Log: logger},
		},
	}
}
