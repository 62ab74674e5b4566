package runkeeper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/workflows"
)

// lookForLost marks runs whose workflow is gone.
func (k *Keeper) lookForLost(ctx context.Context) error {
	active, err := k.Buffer.RecentlyActive(ctx)
	if err != nil {
		return err
	}
	going := map[rollout.RunName]bool{}
	for _, run := range active {
		id := run.Spec.Name
		drive, err := k.Control.Drive(ctx, id)
		if err != nil {
			return err
		}
		if drive.Running {
			going[id] = true
			continue
		}
		if err := k.suspect(ctx, run, drive); err != nil {
			return err
		}
	}
	for id := range k.suspects {
		if going[id] || !listed(active, id) {
			delete(k.suspects, id)
		}
	}
	return nil
}

func listed(runs []runstatus.RunStatus, id rollout.RunName) bool {
	return slices.ContainsFunc(runs, func(run runstatus.RunStatus) bool { return run.Spec.Name == id })
}

// suspect notes that a run has no running workflow, and ends it when that has been so for long enough.
func (k *Keeper) suspect(ctx context.Context, run runstatus.RunStatus, drive workflows.Drive) error {
	id, now := run.Spec.Name, time.Now()
	since, suspected := k.suspects[id]
	if !suspected {
		k.suspects[id], since = now, now
	}
	patience, what := k.Pace.Missing, "Temporal does not know it"
	if drive.Known {
		patience, what = k.Pace.Ended, "it was "+drive.How
	}
	if now.Sub(since) < patience {
		return nil
	}
	if drive.Status.State.Over() {
		return k.sayEnd(ctx, drive.Status, now.Sub(since))
	}
	reason := fmt.Sprintf("its workflow is gone: %s; resume it, or stop or delete it", what)
	if _, err := k.Control.End(ctx, id, runstatus.RunLost, reason); err != nil {
		return err
	}
	delete(k.suspects, id) // if it is resumed, it has its time again
	k.Log.Error("a run is lost", "run", id, "reason", reason)
	return nil
}
