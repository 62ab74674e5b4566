package worker

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/connections"
)

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
