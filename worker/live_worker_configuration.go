package worker

import (
	"context"
	"sync/atomic"

	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/worker/workerconfig"
)

// configuration is the worker's configuration as it is in force.
type configuration struct {
	inForce atomic.Pointer[workerconfig.Config]
	clients *connections.EngineClients
	scale   *fleetScaling
}

func newConfiguration(cfg workerconfig.Config, clients *connections.EngineClients, scale *fleetScaling) *configuration {
	c := &configuration{clients: clients, scale: scale}
	c.inForce.Store(&cfg)
	return c
}

func (c *configuration) now() workerconfig.Config { return *c.inForce.Load() }

// follow takes up what changes, until ctx is done.
func (c *configuration) follow(ctx context.Context,
	changes func(context.Context, func(workerconfig.Config) error)) {
	if changes != nil {
		changes(ctx, c.take)
	}
}

// take puts another configuration into force; the same one may come again.
func (c *configuration) take(next workerconfig.Config) error {
	c.inForce.Store(&next)
	c.scale.take(next.Scaling)
	return c.clients.List(next.Config)
}
