package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// RestoreInput is all that a run knows of itself when Redis has forgotten it.
type RestoreInput struct {
	Spec   runspec.Spec        `json:"spec"` // as the run was started with
	Status runstatus.RunStatus `json:"status"`
	Key    string              `json:"key"` // of the event
}

// ResumeRun makes the service serve a run again whose workflow was lost and has begun again.
func (a *Activities) ResumeRun(ctx context.Context, in RestoreInput) error {
	heartbeat := startHeartbeat(ctx, loadBeat)
	defer heartbeat.stop()
	if err := a.wantAgain(ctx, in); err != nil {
		return typed(err)
	}
	return a.tell(ctx, in.Spec.Name, in.Key, telemetry.RunChanged{
		State: in.Status.State, Change: "resume the lost run",
		Reason: fmt.Sprintf("it goes on at step %d, with version %d", in.Status.NextStep, in.Status.PolicyVersion),
	})
}

// AssertAdapters tells a fleet whose Redis may have gone back what a run's games may ask engines for.
func (a *Activities) AssertAdapters(ctx context.Context, in RestoreInput) error {
	heartbeat := startHeartbeat(ctx, loadBeat)
	defer heartbeat.stop()
	return typed(a.assertAdapters(ctx, in))
}

// assertAdapters makes the fleet want what it wanted of the run, where that may be lost: the records of loads, too.
func (a *Activities) assertAdapters(ctx context.Context, in RestoreInput) error {
	if err := a.Fleet.DoubtLoads(ctx); err != nil {
		return err
	}
	if err := a.wantAgain(ctx, in); err != nil {
		return err
	}
	return a.unwantRetired(ctx, in.Status)
}

func (a *Activities) wantAgain(ctx context.Context, in RestoreInput) error {
	for _, adapter := range a.adaptersOf(ctx, in) {
		err := a.Fleet.Want(ctx, adapter)
		if rollout.Refused(err, rollout.Conflict) { // a fixed policy's files have changed: the keeper reports it
			a.Log.Warn("an adapter that the fleet keeps is not what its run has", "run", in.Spec.Name, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("keep %s on the fleet: %w", adapter.Name, err)
		}
	}
	return nil
}

// unwantRetired retires again what the run has retired, and may have forgotten since: of versions that are not too new
// for it, it knows all that are not retired.
func (a *Activities) unwantRetired(ctx context.Context, status runstatus.RunStatus) error {
	known := map[rollout.PolicyVersion]bool{}
	var names []string
	for _, p := range status.Policies {
		known[p.Version] = true
		switch p.State {
		case runstatus.PolicyRetired:
			names = append(names, p.Adapter)
		case runstatus.PolicyServing, runstatus.PolicyLoading, runstatus.PolicyRejected: // not retired
		}
	}
	wanted, err := a.Fleet.Wanted(ctx)
	if err != nil {
		return err
	}
	for _, w := range wanted {
		if w.Run == status.Spec.Name && w.Version > 0 && w.Version < status.PolicyVersion && !known[w.Version] {
			names = append(names, w.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := a.Fleet.Unwant(ctx, name); err != nil {
			return fmt.Errorf("retire %s again: %w", name, err)
		}
	}
	return nil
}

// adaptersOf lists the adapters that a run's games may ask engines for: serving versions and fixed ones. Digests of
// fixed ones are taken again from their files. Engines judge files that have become unreadable or unfit.
func (a *Activities) adaptersOf(ctx context.Context, in RestoreInput) []fleet.Adapter {
	var all []fleet.Adapter
	for _, p := range in.Status.Policies {
		if p.State == runstatus.PolicyServing {
			all = append(all, fleet.Adapter{Run: in.Spec.Name, Version: p.Version, Name: p.Adapter, Path: p.Path,
				Base: in.Spec.Model, Digest: p.Digest, Prefix: in.Spec.Adapters.PathPrefix,
				ProbeBound: in.Spec.Adapters.ProbeBound})
		}
	}
	for _, p := range in.Spec.FixedAdapters() {
		adapter := fleet.Adapter{Run: in.Spec.Name, Name: p.ServedAs(in.Spec.Name, in.Spec.Model), Path: p.Path,
			Base: in.Spec.Model, Prefix: in.Spec.Adapters.PathPrefix}
		if found, err := a.Files.Inspect(ctx, adapter.Prefix, p.Path, in.Spec.Adapters.Rank); err == nil {
			adapter.Digest = found.Digest
		}
		all = append(all, adapter)
	}
	return all
}
