package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Fleet is what the activities need of the engines.
type Fleet interface {
	List(ctx context.Context) ([]rollout.Engine, error)
	Load(ctx context.Context, engine rollout.EngineID, adapter fleet.Adapter) (seconds float64, err error)
	Unload(ctx context.Context, engine rollout.EngineID, name string) error
	Want(ctx context.Context, adapter fleet.Adapter) error
	Unwant(ctx context.Context, name string) error
	// Newest is the newest version of a run that serves; 0 before the first publication.
	Newest(ctx context.Context, run rollout.RunName) (rollout.PolicyVersion, error)
	Keep(ctx context.Context, beat func()) error
}

// ReadyEngines lists the engines that must have a new adapter before it serves.
func (a *Activities) ReadyEngines(ctx context.Context) ([]rollout.EngineID, error) {
	engines, err := a.Fleet.List(ctx)
	if err != nil {
		return nil, typed(fmt.Errorf("list engines: %w", err))
	}
	var ready []rollout.EngineID
	for _, e := range engines {
		if e.State == rollout.EngineReady {
			ready = append(ready, e.ID)
		}
	}
	return ready, nil
}

// InspectInput asks to judge an adapter before any engine loads it.
type InspectInput struct {
	Adapter fleet.Adapter `json:"adapter"`
	Rank    int           `json:"rank"`  // highest that the run's engines are started for
	Slots   int           `json:"slots"` // adapters that the run may use at once
}

// InspectAdapter judges an adapter by its files, where this worker sees them, and engines by their room for it.
func (a *Activities) InspectAdapter(ctx context.Context, in InspectInput) (fleet.Inspection, error) {
	heart := startHeart(ctx, loadBeat)
	defer heart.stop()
	found, err := fleet.Inspect(ctx, in.Adapter.Path, in.Rank)
	if err != nil {
		return found, typed(err)
	}
	engines, err := a.Fleet.List(ctx)
	if err != nil {
		return found, typed(fmt.Errorf("list engines: %w", err))
	}
	found.Notes = append(found.Notes, fleet.SlotNotes(engines, in.Slots)...)
	return found, nil
}

// UnloadInput asks one engine to unload one adapter.
type UnloadInput struct {
	Engine rollout.EngineID `json:"engine"`
	Name   string           `json:"name"`
}

// UnloadAdapter takes an adapter that is not to be used off one engine.
func (a *Activities) UnloadAdapter(ctx context.Context, in UnloadInput) error {
	if err := a.Fleet.Unload(ctx, in.Engine, in.Name); err != nil {
		return typed(fmt.Errorf("unload %s from %s: %w", in.Name, in.Engine, err))
	}
	return nil
}

// PinAdapter tells the fleet to keep a fixed policy on every engine.
func (a *Activities) PinAdapter(ctx context.Context, adapter fleet.Adapter) error {
	if err := a.Fleet.Want(ctx, adapter); err != nil {
		return typed(fmt.Errorf("keep %s on the fleet: %w", adapter.Name, err))
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
	heart := startHeart(ctx, loadBeat)
	defer heart.stop()
	sec, err := a.Fleet.Load(ctx, in.Engine, in.Adapter)
	body := telemetry.AdapterLoaded{Adapter: in.Adapter.Name, Version: in.Adapter.Version, Sec: sec}
	if err != nil {
		body.Failure = err.Error()
	}
	a.Emit.Emit(telemetry.Event{
		At: a.Now(), Run: in.Adapter.Run, Engine: in.Engine,
		Key: fmt.Sprintf("%s/%s/load", in.Adapter.Name, in.Engine), Body: body,
	})
	if err != nil {
		return LoadResult{}, typed(fmt.Errorf("load %s on %s: %w", in.Adapter.Name, in.Engine, err))
	}
	return LoadResult{Sec: sec}, nil
}

// SwitchPolicy makes a loaded version the one that staleness is measured against, and tells the fleet to
// keep it on every engine, those that join later included.
func (a *Activities) SwitchPolicy(ctx context.Context, adapter fleet.Adapter) error {
	if err := a.Fleet.Want(ctx, adapter); err != nil {
		return typed(fmt.Errorf("keep %s on the fleet: %w", adapter.Name, err))
	}
	if err := a.Buffer.SetVersion(ctx, adapter.Run, adapter.Version); err != nil {
		return typed(fmt.Errorf("set version of %s: %w", adapter.Run, err))
	}
	return nil
}

// ReportPolicy reports how a publication ended.
func (a *Activities) ReportPolicy(ctx context.Context, in PolicyReport) error {
	a.emit(in.Run, in.Policy.Adapter+"/"+string(in.Policy.State), telemetry.PolicyPublished{Policy: in.Policy})
	return nil
}

// PolicyReport is one run's publication.
type PolicyReport struct {
	Run    rollout.RunName `json:"run"`
	Policy rollout.Policy  `json:"policy"`
}

// RetireAdapter lets the fleet unload an adapter that no game uses.
func (a *Activities) RetireAdapter(ctx context.Context, name string) error {
	if err := a.Fleet.Unwant(ctx, name); err != nil {
		return typed(fmt.Errorf("retire %s: %w", name, err))
	}
	return nil
}
