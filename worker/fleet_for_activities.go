package worker

import (
	"context"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
)

// engines is the fleet as activities see it.
type engines struct {
	scaledfleet.Registry
	keeper  *fleet.Keeper
	clients *connections.EngineClients
	loader  fleet.Loader
}

func newEngines(
	current *configuration, b *connections.Set, clients *connections.EngineClients, files *adapterfiles.Reader,
) *engines {
	loader := fleet.Loader{Records: b.Registry.Registry, Files: files}
	complain := func(err error) { b.Log.Warn("watch the fleet", "error", err) }
	list := followedList{current: current.now, registry: b.Registry, complain: complain}
	return &engines{
		Registry: b.Registry,
		clients:  clients,
		loader:   loader,
		keeper: fleet.NewKeeper(fleet.KeeperConfig{
			Registry: b.Registry.Registry, Sampler: b.Sampler, Emit: b.Events, Tell: b.Events, Loader: loader,
			Client:   func(e enginestate.Engine) fleet.Client { return clients.MustGet(e) },
			Follow:   list.follow,
			Complain: complain,
		}),
	}
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
	client, err := e.clients.Get(engine)
	if err != nil {
		return rollout.Fail(rollout.Permanent, rollout.CodeEngineAddress, err)
	}
	return e.loader.Unload(ctx, client, id, name)
}

// Load loads an adapter on one engine, and lets requests for it go there at once.
func (e *engines) Load(ctx context.Context, id rollout.EngineID, a fleet.Adapter) (float64, error) {
	engine, err := e.Get(ctx, id)
	if err != nil {
		return 0, err
	}
	client, err := e.clients.Get(engine)
	if err != nil {
		return 0, rollout.Fail(rollout.Permanent, rollout.CodeEngineAddress, err)
	}
	sec, err := e.loader.Load(ctx, client, id, a)
	if err != nil {
		return sec, err
	}
	return sec, e.Loaded(ctx, id, a.Name)
}
