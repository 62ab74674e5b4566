package worker

import (
	"context"
	"os"
	"strings"
	"time"

	sdkworker "go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/connections"
	"github.com/millrace/millrace/internal/fleetsample"
	"github.com/millrace/millrace/internal/rollout"
)

// fleetScaling is a worker's part in scaling the fleet.
type fleetScaling struct {
	conns      *connections.Set
	acts       *activities.Scaling      // nil: its configuration has no section `scaling`
	config     activities.ScalingConfig // what its configuration says
	configured bool                     // the workflow has been told
	unscaled   time.Time                // since when no worker's configuration scales the fleet; zero: one's does
}

func newFleetScaling(cfg config.Service, b *connections.Set) (*fleetScaling, error) {
	s := &fleetScaling{conns: b}
	if cfg.Scaling == nil {
		return s, nil
	}
	provider, err := chooseProvider(cfg, b.Log)
	if err != nil {
		return nil, err
	}
	host := ""
	if cfg.Scaling.Provider == config.ProviderProcess { // its engines are this host's
		if host, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	if provider != nil { // which knows its engines by this name: workers with another one must not look for them
		host = strings.TrimPrefix(host+"/"+connections.DeploymentName(cfg), "/")
	}
	s.config = activities.ScalingConfig{
		Provider: string(cfg.Scaling.Provider), Window: cfg.Scaling.Window, Config: cfg.Scaling.Config,
		Queue: b.Control.Deployment.ScalingQueue(string(cfg.Scaling.Provider), host),
	}
	s.acts = &activities.Scaling{
		Provider: provider, Fleet: b.Registry, Now: time.Now, Log: b.Log,
		Sampler: fleetsample.New(fleetsample.Stores{Buffer: b.Buffer, Registry: b.Registry, Samples: b.Sampler,
			Workers: b.Workers, Events: b.Events}, time.Now),
	}
	return s, nil
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

// unscaledFor is how long no worker's configuration must scale the fleet until scaling ends: workers are restarted.
const unscaledFor = time.Minute

// ensure sees to it that the workflow that scales the fleet runs by this worker's configuration, or ends when no
// worker's has the section any more.
func (s *fleetScaling) ensure(ctx context.Context) error {
	if s.acts != nil {
		if err := s.conns.Control.EnsureScaling(ctx, s.config); err != nil || s.configured {
			return err
		}
		err := s.conns.Control.ConfigureScaling(ctx, s.config)
		s.configured = err == nil
		return err
	}
	view, scaled, err := s.conns.Registry.Scaling(ctx)
	if err != nil || !scaled || !view.EndedAt.IsZero() {
		return err
	}
	workers, err := s.conns.Workers.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range workers {
		if w.State == rollout.WorkerAlive && w.Scales {
			s.unscaled = time.Time{}
			return nil
		}
	}
	switch now := time.Now(); {
	case s.unscaled.IsZero():
		s.unscaled = now
	case now.Sub(s.unscaled) >= unscaledFor:
		s.conns.Log.Warn("no worker's configuration has a section scaling any more; engines are left as they are")
		return s.conns.Control.EndScaling(ctx)
	}
	return nil
}
