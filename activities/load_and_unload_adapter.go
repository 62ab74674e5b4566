package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// UnloadInput asks one engine to unload one adapter.
type UnloadInput struct {
	Engine rollout.EngineID `json:"engine"`
	Name   string           `json:"name"`
	// Loading reports a load whose end is unknown: the engine may have the adapter later.
	Loading bool `json:"loading,omitempty"`
}

// UnloadAdapter takes an adapter that is not to be used off one engine.
func (a *Activities) UnloadAdapter(ctx context.Context, in UnloadInput) error {
	err := a.Fleet.Unload(ctx, in.Engine, in.Name)
	if err == nil && !in.Loading {
		err = a.Fleet.ForgetLoads(ctx, in.Engine, in.Name)
	}
	if err != nil {
		return typed(fmt.Errorf("unload %s from %s: %w", in.Name, in.Engine, err))
	}
	return nil
}

// LoadInput asks one engine to load one adapter.
type LoadInput struct {
	Engine  rollout.EngineID `json:"engine"`
	Adapter fleet.Adapter    `json:"adapter"`
}

// LoadResult says what the load took.
type LoadResult struct {
	Sec float64 `json:"seconds"`
}

// loadBeat is how often a load tells that it goes on.
const loadBeat = 2 * time.Second

// LoadAdapter loads an adapter on one engine and verifies that the engine serves it from the right path.
func (a *Activities) LoadAdapter(ctx context.Context, in LoadInput) (LoadResult, error) {
	heartbeat := startHeartbeat(ctx, loadBeat)
	defer heartbeat.stop()
	sec, err := a.Fleet.Load(ctx, in.Engine, in.Adapter)
	body := telemetry.AdapterLoaded{Adapter: in.Adapter.Name, Version: in.Adapter.Version, Sec: sec}
	if err != nil {
		body.Failure = err.Error()
		if a.leaves(ctx, in.Engine) {
			err = rollout.Fail(rollout.Permanent, codeEngineLeaves, err)
		}
	}
	told := a.Tell.Tell(context.WithoutCancel(ctx), telemetry.Event{
		At: a.Now(), Run: in.Adapter.Run, Engine: in.Engine,
		Key: fmt.Sprintf("%s/%s/load", in.Adapter.Name, in.Engine), Body: body,
	})
	if err = cmp.Or(err, told); err != nil {
		return LoadResult{}, typed(err) // it names engine and adapter
	}
	return LoadResult{Sec: sec}, nil
}

// codeEngineLeaves is for a load by an engine that was told to go meanwhile. Nobody waits for the load, and it proves
// nothing about the adapter.
const codeEngineLeaves rollout.Code = "engine_leaves"

// leaves reports whether an engine is going, or gone, from the fleet.
func (a *Activities) leaves(ctx context.Context, id rollout.EngineID) bool {
	engines, err := a.Fleet.List(ctx)
	if err != nil {
		return false
	}
	at := slices.IndexFunc(engines, func(e enginestate.Engine) bool { return e.ID == id })
	return at < 0 || engines[at].State == enginestate.EngineDraining
}
