package activities

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Fleet is what the activities need of the engines.
type Fleet interface {
	List(ctx context.Context) ([]enginestate.Engine, error)
	Load(ctx context.Context, engine rollout.EngineID, adapter fleet.Adapter) (seconds float64, err error)
	// Unload takes an adapter off an engine and verifies that it is gone; ForgetLoads notes that it cannot come back.
	Unload(ctx context.Context, engine rollout.EngineID, name string) error
	ForgetLoads(ctx context.Context, engine rollout.EngineID, names ...string) error
	Want(ctx context.Context, adapter fleet.Adapter) error
	Unwant(ctx context.Context, name string) error
	// Wanted is every adapter that every engine must serve, of all runs.
	Wanted(ctx context.Context) ([]fleet.Adapter, error)
	// AskedToLoad lists the engines that were asked to load an adapter under a name, with the adapter.
	AskedToLoad(ctx context.Context, name string) (map[rollout.EngineID]fleet.LoadRecord, error)
	// Newest is the newest version of a run that serves; 0 before the first publication.
	Newest(ctx context.Context, run rollout.RunName) (rollout.PolicyVersion, error)
	// History is of the Redis that holds the fleet: another one after each restart and promotion. DoubtLoads says that
	// it has lost something.
	History(ctx context.Context) (string, error)
	DoubtLoads(ctx context.Context) error
	Keep(ctx context.Context, beat func()) error
	// Scaled is the state of a fleet that is scaled now; nil: it is not.
	Scaled(ctx context.Context) (*supply.View, error)
	// EndScaling records that the fleet is no longer scaled.
	EndScaling(ctx context.Context, at time.Time) error
}

// EngineChoice is the engines that are to load an adapter.
type EngineChoice struct {
	Ready  []rollout.EngineID `json:"ready,omitempty"`  // and serve all that the run has in use: they are waited for
	Behind []rollout.EngineID `json:"behind,omitempty"` // lack an adapter of the run as it is: asked, and not waited for
}

// ChooseEngines lists the engines that are to load a new adapter of a run. No engine being ready is no error.
func (a *Activities) ChooseEngines(ctx context.Context, run rollout.RunName) (EngineChoice, error) {
	engines, err := a.Fleet.List(ctx)
	if err != nil {
		return EngineChoice{}, typed(fmt.Errorf("list engines: %w", err))
	}
	wanted, err := a.Fleet.Wanted(ctx)
	if err != nil {
		return EngineChoice{}, typed(err)
	}
	var choice EngineChoice
	for _, e := range engines {
		lacks := slices.ContainsFunc(wanted, func(w fleet.Adapter) bool {
			return w.Run == run && !slices.Contains(e.Adapters, w.Name)
		})
		switch {
		case e.State != enginestate.EngineReady:
		case lacks:
			choice.Behind = append(choice.Behind, e.ID)
		default:
			choice.Ready = append(choice.Ready, e.ID)
		}
	}
	return choice, nil
}

// InspectInput asks to judge an adapter before any engine loads it.
type InspectInput struct {
	Adapter fleet.Adapter `json:"adapter"`
	Rank    int           `json:"rank"`  // highest that the run's engines are started for
	Slots   int           `json:"slots"` // adapters that the run may use at once
	// Compare asks to compare its weights with those in use: of other adapters from the same path, and of earlier ones
	// under its name.
	Compare bool `json:"compare,omitempty"`
}

// InspectAdapter judges an adapter by its files, where this worker sees them, and engines by their room for it. Weights
// that must not come under this name, or from this path, are refused as a Conflict.
func (a *Activities) InspectAdapter(ctx context.Context, in InspectInput) (adapterfiles.Inspection, error) {
	heartbeat := startHeartbeat(ctx, loadBeat)
	defer heartbeat.stop()
	found, err := a.Files.Inspect(ctx, in.Adapter.Prefix, in.Adapter.Path, in.Rank)
	if err != nil {
		return found, typed(err)
	}
	if in.Compare {
		in.Adapter.Digest = found.Digest
		if err := a.compare(ctx, in.Adapter); err != nil {
			return found, typed(err)
		}
	}
	engines, err := a.Fleet.List(ctx)
	if err != nil {
		return found, typed(fmt.Errorf("list engines: %w", err))
	}
	found.Notes = append(found.Notes, fleet.SlotNotes(engines, in.Slots)...)
	return found, nil
}

// compare refuses two kinds of weights: those that differ from an adapter in use from the same path, which engines may
// read again at any time; and those that an engine could mistake for earlier ones under the same name.
func (a *Activities) compare(ctx context.Context, adapter fleet.Adapter) error {
	wanted, err := a.Fleet.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if w.Name == adapter.Name || path.Clean(w.Path) != adapter.Path || sameContent(w, adapter) {
			continue
		}
		return rollout.Refuse(rollout.Conflict,
			"%s is served as adapter %s, whose weights were %s and are now %s; engines may read them again at any time: "+
				"put the old files back, and write new weights to a directory of their own",
			adapter.Path, w.Name, runspec.ShortDigest(w.Digest), runspec.ShortDigest(adapter.Digest))
	}
	asked, err := a.Fleet.AskedToLoad(ctx, adapter.Name)
	if err != nil {
		return err
	}
	for _, engine := range slices.Sorted(maps.Keys(asked)) {
		if load := asked[engine]; path.Clean(load.Path) == adapter.Path && load.Digest != adapter.Digest {
			return rollout.Refuse(rollout.Conflict,
				"engine %s may have loaded other weights (%s, now %s) from %s as adapter %s; "+
					"write the new ones to a directory of their own, and publish them from there",
				engine, runspec.ShortDigest(load.Digest), runspec.ShortDigest(adapter.Digest), adapter.Path, adapter.Name)
		}
	}
	return nil
}

// sameContent reports whether two adapters from one path may be taken for the same weights. Without digests, two
// versions of a run are taken to differ; other adapters, such as an opponent of two runs, are taken to be equal.
func sameContent(a, b fleet.Adapter) bool {
	if a.Digest != "" && b.Digest != "" {
		return a.Digest == b.Digest
	}
	return a.Run != b.Run || a.Version == 0 || b.Version == 0
}

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
		return LoadResult{}, typed(fmt.Errorf("load %s on %s: %w", in.Adapter.Name, in.Engine, err))
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

// SwitchInput asks to switch to an adapter, as the trainer process of a generation published it; 0: nobody's.
type SwitchInput struct {
	fleet.Adapter
	Generation rollout.TrainerGeneration `json:"generation,omitempty"`
}

// SwitchPolicy makes a loaded version the one that staleness is measured against, and tells the fleet to
// keep it on every engine, those that join later included. Nothing is kept of a trainer that was replaced meanwhile.
func (a *Activities) SwitchPolicy(ctx context.Context, in SwitchInput) error {
	if err := a.Buffer.SetVersion(ctx, in.Run, in.Version, in.Generation); err != nil {
		return typed(fmt.Errorf("set version of %s: %w", in.Run, err))
	}
	return a.PinAdapter(ctx, in.Adapter)
}

// ReportPolicy reports how a publication ended.
func (a *Activities) ReportPolicy(ctx context.Context, in PolicyReport) error {
	return a.tell(ctx, in.Run, in.Policy.Adapter+"/"+string(in.Policy.State), telemetry.PolicyPublished{Policy: in.Policy})
}

// PolicyReport is one run's publication.
type PolicyReport struct {
	Run    rollout.RunName  `json:"run"`
	Policy runstatus.Policy `json:"policy"`
}

// RetireAdapter lets the fleet unload an adapter that no game uses.
func (a *Activities) RetireAdapter(ctx context.Context, name string) error {
	if err := a.Fleet.Unwant(ctx, name); err != nil {
		return typed(fmt.Errorf("retire %s: %w", name, err))
	}
	return nil
}
