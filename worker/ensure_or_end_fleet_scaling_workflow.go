package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/fleetsample"
	"github.com/millrace/millrace/worker/workerconfig"
)

// fleetScaling is a worker's part in scaling the fleet.
type fleetScaling struct {
	conns    *connections.Set
	acts     *activities.Scaling // nil: its configuration has no section `scaling`
	changed  chan struct{}       // the section says something else than it did; buffered, so that nobody waits
	unscaled time.Time           // since when no worker's configuration scales the fleet; zero: one's does

	mu         sync.Mutex
	config     activities.ScalingConfig // what its configuration says
	configured bool                     // the workflow has been told that
}

// newFleetScaling is that part by the configuration's section; nil: it has none.
func newFleetScaling(cfg *workerconfig.Scaling, given Wiring, b *connections.Set) *fleetScaling {
	s := &fleetScaling{conns: b, changed: make(chan struct{}, 1)}
	if cfg == nil {
		return s
	}
	if given.Provider != nil {
		b.Log.Info("engines are got and given back", "provider", cfg.Provider, "engines", given.Engines)
	}
	s.config = activities.ScalingConfig{
		Provider: cfg.Provider, Window: cfg.Window, Config: cfg.Config,
		Queue: b.Control.Deployment.ScalingQueue(cfg.Provider, given.Engines),
	}
	s.acts = &activities.Scaling{
		Provider: given.Provider, Fleet: b.Registry, Now: time.Now, Log: b.Log,
		Sampler: fleetsample.New(fleetsample.Stores{Buffer: b.Buffer, Registry: b.Registry.Registry, Samples: b.Sampler,
			Workers: b.Workers, Events: b.Events}, time.Now),
	}
	return s
}

// worker is the Temporal worker of what touches the provider; nil: this process has none.
func (s *fleetScaling) worker(options sdkworker.Options) sdkworker.Worker {
	if s.acts == nil {
		return nil
	}
	options.DisableWorkflowWorker = true
	w := sdkworker.New(s.conns.Control.Temporal, s.config.Queue, options)
	w.RegisterActivity(s.acts)
	return w
}

// take takes up what the section says now, as far as it is taken up while the process runs: all but the provider.
func (s *fleetScaling) take(cfg *workerconfig.Scaling) {
	if s.acts == nil || cfg == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.config
	next.Window, next.Config = cfg.Window, cfg.Config
	if next == s.config {
		return
	}
	s.config, s.configured = next, false
	select {
	case s.changed <- struct{}{}:
	default: // one is enough
	}
}

// told is what the configuration says, and whether the workflow has been told that.
func (s *fleetScaling) told() (activities.ScalingConfig, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config, s.configured
}

// silentFor is how long nothing must have been told of scaling until a worker says again that it scales.
const silentFor = time.Minute

// ensure sees to it that the workflow that scales the fleet runs by this worker's configuration, or ends when no
// worker's has the section any more.
func (s *fleetScaling) ensure(ctx context.Context) error {
	if s.acts == nil {
		return s.endUnscaled(ctx)
	}
	cfg, configured := s.told()
	if err := s.conns.Control.EnsureScaling(ctx, cfg); err != nil {
		return err
	}
	if configured {
		goesOn, err := s.goesOn(ctx, cfg)
		if err != nil || goesOn {
			return err
		}
	}
	if err := s.conns.Control.ConfigureScaling(ctx, cfg); err != nil {
		if rollout.Refused(err, rollout.Conflict) { // engines are got elsewhere
			n, fault := stopLeftovers(ctx, s.acts.Provider, s.conns.Registry)
			if n > 0 {
				s.conns.Log.Warn("engines that were left by an earlier configuration of scaling are stopped", "engines", n)
			}
			return errors.Join(err, fault)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configured = s.config == cfg // it may have changed meanwhile
	return nil
}

// goesOn reports whether somebody scales the fleet. Scaling has ended where this worker was not heard of for too long:
// it was frozen, or Redis had forgotten it. Where a Redis that came back older has forgotten that end, what is told is
// old, or nothing is.
func (s *fleetScaling) goesOn(ctx context.Context, cfg activities.ScalingConfig) (bool, error) {
	view, scaled, err := s.conns.Registry.Scaling(ctx)
	if err != nil {
		return false, err
	}
	silent := time.Since(view.At) > silentFor+3*cfg.Window.Std()
	return scaled && view.EndedAt.IsZero() && !silent, nil
}

// unscaledFor is how long no worker's configuration must scale the fleet until scaling ends: workers are restarted.
const unscaledFor = time.Minute

// endUnscaled ends scaling when no worker's configuration has the section any more.
func (s *fleetScaling) endUnscaled(ctx context.Context) error {
	view, scaled, err := s.conns.Registry.Scaling(ctx)
	if err != nil || !scaled || !view.EndedAt.IsZero() {
		return err
	}
	workers, err := s.conns.Workers.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.State == enginestate.WorkerAlive && w.Scales {
			s.unscaled = time.Time{}
			return nil
		}
	}
	switch now := time.Now(); {
	case s.unscaled.IsZero():
		s.unscaled = now
	case now.Sub(s.unscaled) >= unscaledFor:
		s.conns.Log.Warn("no worker's configuration has a section scaling any more; engines are left as they are")
		if err := s.conns.Control.EndScaling(ctx); err != nil {
			return err
		}
		return s.conns.Registry.EndScaling(ctx, now.UTC()) // one that rests already does not say so again
	}
	return nil
}
