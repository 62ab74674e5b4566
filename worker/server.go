package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/diplomacyenv"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/prom"
)

// Serve runs an API server until ctx is done. Any number of them may serve one deployment: they keep nothing.
func Serve(ctx context.Context, cfg config.Service, version string, logger *slog.Logger) error {
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
	metrics := prom.New()
	var temporal temporalLook
	backend.Registry.MaxEngines = cfg.Limits.Engines
	files := &reloads{log: logger}
	apiConfig := cfg.API(version)
	if err := secure(cfg, &apiConfig, files); err != nil {
		return err
	}
	server, err := api.New(apiConfig, api.Deps{
		Control:    newControl(backend),
		Store:      reporting{backend.Buffer, sinks},
		Fleet:      backend.Registry,
		Workers:    backend.Workers,
		Events:     Stream{backend.Events},
		ReadSpec:   func(b []byte) (rollout.Spec, error) { return ReadSpec("request", b) },
		SpecSchema: config.SpecSchema(),
		Diagnose:   func(ctx context.Context, run rollout.RunName) (any, error) { return backend.Diagnose(ctx, run) },
		FleetView: func(ctx context.Context, _ rollout.RunName, from, to time.Time) (rollout.FleetView, error) {
			return backend.Sampler.View(ctx, from, to)
		},
		Game:  backend.Game,
		Ready: func(ctx context.Context) error { return backend.Buffer.Ping(ctx) }, Temporal: temporal.answers.Load,
		Metrics: metrics.Handler(), OnRefusal: metrics.Refused, Emit: sinks,
		Log: logger,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	if err := joinConfigured(ctx, cfg, backend); err != nil {
		return errors.Join(err, l.Close())
	}
	g, ctx := errgroup.WithContext(ctx)
	logger.Info("serving", "address", l.Addr().String())
	g.Go(func() error { return server.Serve(ctx, l) })
	g.Go(func() error {
		files.watch(ctx)
		return nil
	})
	g.Go(func() error {
		temporal.watch(ctx, backend.temporalAnswers, cfg.Temporal.Address, logger)
		return nil
	})
	g.Go(func() error { return newLevels(backend, cfg.Redis.Prefix, sinks).run(ctx) })
	g.Go(func() error { return newScrape(backend, metrics, time.Now()).run(ctx) })
	return g.Wait()
}

// joinConfigured adds the engines that the configuration lists; those that the fleet has are left as they are.
func joinConfigured(ctx context.Context, cfg config.Service, b *Backend) error {
	for _, e := range cfg.Engines {
		if _, err := b.Registry.Add(ctx, rollout.Engine{ID: e.ID, URL: e.URL, MaxInFlight: e.MaxInFlight}); err != nil {
			return fmt.Errorf("engine %s of the configuration: %w", e.URL, err)
		}
	}
	return nil
}

// Game is one game of a run, as its environment writes it for the eye.
func (b *Backend) Game(ctx context.Context, ref rollout.EpisodeRef) (json.RawMessage, error) {
	status, err := b.Buffer.Status(ctx, ref.Run)
	if err != nil {
		return nil, err
	}
	game, err := b.Buffer.Game(ctx, ref)
	if rollout.Refused(err, rollout.NotRetained) {
		return nil, b.gone(ctx, ref, err)
	}
	if err != nil {
		return nil, err
	}
	if status.Spec.Environment.Kind != "diplomacy" {
		return json.RawMessage(game), nil
	}
	saved, err := diplomacyenv.SavedGame(game, ref.String())
	if err != nil {
		return nil, fmt.Errorf("game %s: %w", ref, err)
	}
	return json.Marshal(saved)
}

// reporting is the buffer with an event for each batch that is formed and each step that is completed.
type reporting struct {
	api.Store
	emit telemetry.Emitter
}

// ClaimRaw reports a batch when it is formed, from the record that it has by then. A record that cannot be read
// costs the event and never the claim.
func (r reporting) ClaimRaw(ctx context.Context, run rollout.RunName, step rollout.Step, epoch rollout.Epoch, share buffer.Share) (*buffer.RawBatch, error) {
	batch, err := r.Store.ClaimRaw(ctx, run, step, epoch, share)
	if err != nil || !batch.Granted {
		return batch, err
	}
	if record, err := r.Step(ctx, run, step); err == nil {
		v := record.Service
		r.emit.Emit(telemetry.Event{
			At: v.GrantedAt, Run: run, Key: fmt.Sprintf("%s/claim/%d/%d", run, step, v.GrantedAt.UnixMilli()),
			Body: telemetry.BatchClaimed{
				Step: step, Counts: v.AtClaim, StarvedSec: max(0, v.GrantedAt.Sub(v.FirstAskedAt).Seconds()),
				StalenessInFlightMean: v.StalenessInFlightMean, StalenessInBufferMean: v.StalenessInBufferMean, FlatGroups: v.FlatGroups,
			},
		})
	}
	return batch, nil
}

func (r reporting) Complete(ctx context.Context, run rollout.RunName, step rollout.Step, epoch rollout.Epoch,
	report rollout.StepReport, fleet rollout.FleetView,
) (rollout.StepRecord, bool, error) {
	record, isNew, err := r.Store.Complete(ctx, run, step, epoch, report, fleet)
	if err == nil && isNew {
		r.emit.Emit(telemetry.Event{
			At: record.Service.CompletedAt, Run: run, Key: fmt.Sprintf("%s/step/%d", run, step), Body: telemetry.StepCompleted{Record: record},
		})
	}
	return record, isNew, err
}
