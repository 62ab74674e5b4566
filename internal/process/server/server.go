// Package server is the API server process: it builds what the API stands on and runs it until it is told to stop.
// Start reading at Run.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/diagnosis/diagnosisinput"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/onevllm"
	"github.com/millrace/millrace/internal/face/savedgame"
	"github.com/millrace/millrace/internal/face/web"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/specfile"
	"github.com/millrace/millrace/internal/kit/panics"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/observe/prom"
	"github.com/millrace/millrace/internal/observe/prom/processmetrics"
	"github.com/millrace/millrace/internal/observe/runsampler"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/process/reload"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/store/browsersession"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
	"github.com/millrace/millrace/internal/store/loranames"
	"github.com/millrace/millrace/internal/store/redisserver"
	"github.com/millrace/millrace/workflows"
)

// OneVLLM is a run that is served as one vLLM at an address of its own, beside that of the API.
type OneVLLM struct {
	Listen string // empty: none is
	Run    rollout.RunName
}

// serve answers there as the API does below the run's path, until ctx is done. Tokens and TLS are the API's.
func (o OneVLLM) serve(ctx context.Context, server *api.Server, cfg api.Config) error {
	if o.Listen == "" {
		return nil
	}
	cfg.Listen = o.Listen
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("%w: --vllm-listen: %w", settings.ErrFaulty, err)
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", o.Listen, err)
	}
	return server.ServeVLLM(ctx, l, o.Run)
}

// Run runs an API server until ctx is done. Any number of them may serve one deployment: they keep nothing.
func Run(ctx context.Context, cfg config.Service, version string, logger *slog.Logger, also ...OneVLLM) error {
	cfg.PageURL = cfg.PageAddress()
	files := reload.NewFiles(logger)
	current := reload.NewConfiguration(cfg, files, logger) // first: what changes while the server starts is a change, too
	b, err := connections.Open(ctx, "millrace-server", cfg.Config.Config, logger)
	if err != nil {
		return err
	}
	defer b.Close()
	sink := delivery.New(b.Redis, cfg.Redis.Prefix, b.Events)
	shipper, err := newShipper(cfg.Axiom, b, sink)
	if err != nil {
		return err
	}
	if shipper != nil { // deferred before the writing is: what is still written down is delivered, too
		defer shipper.Close()
	}
	defer b.WriteEvents(ctx, cfg.Config.Config)()
	sampler := runsampler.New(b.Redis, cfg.Redis.Prefix, b.Buffer, b.Registry, b.Workers, b.Events, logger)
	sinkStatus := &sinkWatch{store: sink, configured: shipper != nil}
	metrics, err := newMetrics(ctx, b, sampler, sinkStatus)
	if err != nil {
		return err
	}
	var temporal temporalWatch
	var storage redisWatch
	b.Registry.LimitEngines(cfg.Limits.Engines)
	limits := apiConfig(cfg, version)
	if err := secure(cfg, &limits, files); err != nil {
		return err
	}
	inputs := diagnosisinput.Reader{Buffer: b.Buffer, Registry: b.Registry, Workers: b.Workers, Events: b.Events,
		Mail: b.Mail}
	survived := panics.Watch{Log: logger, Count: metrics.Panicked}
	deps := apiDeps(b, sink, metrics, sinkStatus, logger)
	deps.Panics = survived
	games := &savedgame.Reader{Buffer: b.Buffer, Events: b.Events}
	var background []func(context.Context) error
	clients, err := connections.NewEngineClients(cfg.Config.Config, b.Otel)
	if err != nil { // the keys and certificates need not be here: only workers play
		logger.Info("turns are shown without the text of their prompts, and no run is served as one vLLM", "error", err)
	} else {
		tokenizer := &engineTokenizer{b.Registry.Registry, clients}
		games.Tokenizer, deps.CountTokens = tokenizer, tokenizer.CountTokens
		relay := newRelay(b, clients)
		deps.VLLM = onevllm.New(onevllm.Deps{Fleet: relay, Names: loranames.New(b.Redis, cfg.Redis.Prefix),
			Log: logger,
			Status: func(ctx context.Context, name rollout.RunName) (runstatus.RunStatus, error) {
				run, err := b.Buffer.ID(ctx, name)
				if err != nil {
					return runstatus.RunStatus{}, err
				}
				return b.Buffer.Status(ctx, run)
			},
			Publish: func(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string) error {
				_, err := b.Control.Publish(ctx, run, v, path, 0)
				return err
			}})
		background = append(background, relay.run)
	}
	deps.Game, deps.Games = games.Game, games
	deps.Diagnose = diagnoses{inputs}.answer
	deps.Temporal, deps.Storage = temporal.answers.Load, storage.now
	server, err := api.New(limits, deps)
	if err != nil {
		return fmt.Errorf("%w: %w", settings.ErrFaulty, err)
	}
	current.OnChange(func(cfg config.Service) error {
		server.Adjust(apiConfig(cfg, version))
		b.Registry.LimitEngines(cfg.Limits.Engines)
		return joinConfigured(ctx, cfg, b)
	})
	if err := putPageInFront(cfg, b, server, survived); err != nil {
		return err
	}
	l, err := listen(ctx, cfg, b)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	logger.Info("serving", "address", l.Addr().String())
	if shipper != nil {
		shipper.Start(ctx)
	}
	background = append(append(background, inBackground(b, sink, inputs, metrics, sampler, survived)...),
		func(ctx context.Context) error { return server.Serve(ctx, l) },
		endless(files.Watch), endless(sinkStatus.watch),
		endless(func(ctx context.Context) {
			storage.watch(ctx, func(ctx context.Context) ([]string, error) { return redisserver.Warnings(ctx, b.Redis) })
		}), endless(b.Control.Attributes.Keep),
		endless(func(ctx context.Context) {
			temporal.watch(ctx, b.Control.Reachable, logger.With("address", cfg.Temporal.Address))
		}))
	for _, one := range background {
		g.Go(func() error { return one(ctx) })
	}
	for _, one := range also {
		g.Go(func() error { return one.serve(ctx, server, limits) })
	}
	return g.Wait()
}

// inBackground is what a server does for the deployment, whoever asks.
func inBackground(b *connections.Set, sink *delivery.Sink, inputs diagnosisinput.Reader, metrics *prom.Metrics,
	sampler *runsampler.Sampler, survived panics.Watch) []func(context.Context) error {
	return []func(context.Context) error{
		endless(func(ctx context.Context) {
			sink.KeepBounds(ctx, func(err error) { survived.Log.Warn("keep the bounds of events", "error", err) })
		}),
		sampler.Run, newMetricsFeed(b, metrics, sampler.Leads, time.Now()).run,
		newVerdictWatch(b.Buffer, inputs, sampler.Leads, survived, metrics.Goodput).run,
	}
}

// endless is work that ends with its context and never fails.
func endless(work func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		work(ctx)
		return nil
	}
}

// newMetrics is what Prometheus, and OpenTelemetry if it is configured, are told.
func newMetrics(
	ctx context.Context, b *connections.Set, sampler *runsampler.Sampler, sinks *sinkWatch,
) (*prom.Metrics, error) {
	metrics := prom.New()
	metrics.ShowWhole(sampler.Leads)
	metrics.Registry().MustRegister(b.TemporalMetrics)
	metrics.Exemplars(b.Otel.Exemplar)
	metrics.ShowSinks(sinks.now)
	metrics.Registry().MustRegister(processmetrics.WatchSink("store", b.StoreSink)...)
	return metrics, b.Otel.Metrics(ctx, metrics.Gatherer())
}

// apiDeps is what the API stands on, but for what belongs to this process.
func apiDeps(
	b *connections.Set, sink *delivery.Sink, metrics *prom.Metrics, sinks *sinkWatch, log *slog.Logger,
) api.Deps {
	return api.Deps{
		Control: b.Control,
		Store:   b.Buffer,
		Changes: b.Buffer.Follow,
		Mail:    b.Mail,
		Fleet:   b.Registry,
		Workers: b.Workers,
		Events:  b.Events,
		ReadSpec: func(b []byte) (runspec.Spec, error) {
			file, err := specfile.Read("request", b)
			return file.Spec, err
		},
		Engines: func(ctx context.Context, run rollout.RunName, from, to time.Time) ([]enginestate.EngineView, error) {
			return enginesOfRun(ctx, b, run, from, to)
		},
		SetScaling: func(ctx context.Context, c scaling.SettingsChange) (scaling.Config, []string, error) {
			now, err := b.Control.SetScaling(ctx, c)
			return now.Settings, now.Set, err
		},
		FleetView: func(ctx context.Context, run rollout.RunName, from, to time.Time) (steprecord.FleetView, error) {
			status, err := b.Buffer.Status(ctx, run)
			if err != nil {
				return steprecord.FleetView{}, err
			}
			return b.Sampler.View(ctx, status.Spec.Model, from, to)
		},
		Ready:     b.Buffer.Ping,
		Metrics:   metrics.Handler(),
		OnRefusal: metrics.Refused,
		Sinks:     sinks.look, DeadLetters: sink,
		Tell: b.Events, Now: time.Now,
		Log: log,
	}
}

// listen takes the address; then the engines that are configured join.
func listen(ctx context.Context, cfg config.Service, b *connections.Set) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	if err := joinConfigured(ctx, cfg, b); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// joinConfigured adds the engines that the configuration lists; those that the fleet has are left as they are.
func joinConfigured(ctx context.Context, cfg config.Service, b *connections.Set) error {
	for _, e := range cfg.Engines {
		if _, err := b.Registry.Add(ctx, enginestate.Engine{ID: e.ID, URL: e.URL, MaxInFlight: e.MaxInFlight}); err != nil {
			return fmt.Errorf("engine %s of the configuration: %w", e.URL, err)
		}
	}
	return nil
}

// putPageInFront has the operator's page answer before the API.
func putPageInFront(cfg config.Service, b *connections.Set, server *api.Server, survived panics.Watch) error {
	page, err := web.New(web.Deps{
		Deployment: cfg.Name, API: server, Handler: server.Handler(), Panics: survived, Log: survived.Log,
		Workflows: workflows.WebUI{Address: cfg.Temporal.UIURL, Namespace: cfg.Temporal.Namespace,
			Deployment: workflows.Deployment(cfg.Temporal.TaskQueuePrefix)},
		Sessions: browsersession.Store{Redis: b.Redis, Prefix: cfg.Redis.Prefix},
		History:  runhistory.New(b.Buffer, b.Events, survived),
	})
	if err == nil {
		server.Front(func(http.Handler) http.Handler { return page })
	}
	return err
}

// enginesOfRun is each engine that may serve a run, between two moments: those of another base model are none of its.
func enginesOfRun(
	ctx context.Context, b *connections.Set, run rollout.RunName, from, to time.Time,
) ([]enginestate.EngineView, error) {
	status, err := b.Buffer.Status(ctx, run)
	if err != nil {
		return nil, err
	}
	engines, err := b.Registry.List(ctx)
	if err != nil {
		return nil, err
	}
	serving := fleet.ServingModel(engines, status.Spec.Model)
	views, err := b.Sampler.Engines(ctx, from, to)
	return slices.DeleteFunc(views, func(v enginestate.EngineView) bool {
		is := func(e enginestate.Engine) bool { return e.ID == v.Engine }
		return slices.ContainsFunc(engines, is) && !slices.ContainsFunc(serving, is)
	}), err
}
