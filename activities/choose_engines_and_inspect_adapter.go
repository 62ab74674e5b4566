package activities

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// EngineChoice is the engines that are to load an adapter.
type EngineChoice struct {
	Ready  []rollout.EngineID `json:"ready,omitempty"`  // and serve all that the run has in use: they are waited for
	Behind []rollout.EngineID `json:"behind,omitempty"` // lack an adapter of the run as it is: asked, and not waited for
}

// ChoiceInput asks for the engines of a run.
type ChoiceInput struct {
	Run  rollout.RunName `json:"run"`
	Base string          `json:"base"` // model that the run's adapters adapt
}

// ChooseEngines lists the engines that are to load a new adapter of a run: those that serve its base model. No engine
// being ready is no error.
func (a *Activities) ChooseEngines(ctx context.Context, in ChoiceInput) (EngineChoice, error) {
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
			return w.Run == in.Run && !slices.Contains(e.Adapters, w.Name)
		})
		switch {
		case e.State != enginestate.EngineReady, !slices.Contains(e.Models, in.Base):
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
	// Newest is the newest version that the run knows of, 0 before the first; nil: not said.
	Newest *rollout.PolicyVersion `json:"newest,omitempty"`
	Probes bool                   `json:"probes,omitempty"` // whether it must have probes
}

// Inspected is what an adapter's inspection found.
type Inspected struct {
	adapterfiles.Inspection
	// Ahead is the buffer's version, where the run does not know of it: nothing was inspected then.
	Ahead rollout.PolicyVersion `json:"ahead,omitempty"`
}

// InspectAdapter judges an adapter by its files, where this worker sees them, and engines by their room for it. Weights
// that must not come under this name, or from this path, are refused as a Conflict. A run that Temporal has restored
// from a backup, and that does not know its newest versions, judges none: it would take their names for other weights.
func (a *Activities) InspectAdapter(ctx context.Context, in InspectInput) (found Inspected, err error) {
	heartbeat := startHeartbeat(ctx, loadBeat)
	defer heartbeat.stop()
	if in.Newest != nil {
		account, err := a.Buffer.AccountSince(ctx, in.Adapter.Run, math.MaxInt32)
		if err != nil {
			return found, typed(fmt.Errorf("account of %s: %w", in.Adapter.Run, err))
		}
		if account.Version > *in.Newest {
			return Inspected{Ahead: account.Version}, nil
		}
	}
	found.Inspection, err = a.Files.Inspect(ctx, in.Adapter.Prefix, in.Adapter.Path, in.Rank)
	if err != nil {
		return found, typed(err)
	}
	if in.Probes {
		probes, err := a.Files.Probes(ctx, in.Adapter.Prefix, in.Adapter.Path)
		if err == nil && len(probes) == 0 {
			err = rollout.Refuse(rollout.Invalid, "%s has no %s, or this worker does not see it, and adapters.probes is %s",
				in.Adapter.Path, adapterfiles.ProbesFile, runspec.ProbesRequired)
		}
		if err != nil {
			return found, typed(err)
		}
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
