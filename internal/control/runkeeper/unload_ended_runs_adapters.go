package runkeeper

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// unwantOver lets engines unload the adapters of runs that are over or deleted. Each run does that itself when it ends;
// a Redis that comes back older wants them again.
func (k *Keeper) unwantOver(ctx context.Context) error {
	owners, err := k.Control.AdapterOwners(ctx)
	if err != nil {
		return err
	}
	seen := map[rollout.RunName]time.Time{}
	for _, run := range owners {
		over, err := k.over(ctx, run)
		if err != nil {
			return err
		}
		if !over {
			continue
		}
		now := time.Now()
		since, known := k.owners[run]
		if !known {
			since = now
		}
		if now.Sub(since) < k.Pace.Missing { // it is being resumed, or opened again in a Redis that has forgotten it
			seen[run] = since
			continue
		}
		if err := k.Control.UnwantAdapters(ctx, run); err != nil {
			return err
		}
		k.Log.Info("engines kept adapters of a run that is over", "run", run)
	}
	k.owners = seen
	return nil
}

// over reports whether a run is over or unknown, and no workflow drives it.
func (k *Keeper) over(ctx context.Context, run rollout.RunName) (bool, error) {
	status, err := k.Buffer.Status(ctx, run)
	if err != nil && !rollout.Refused(err, rollout.NoSuchRun) {
		return false, err
	}
	if err == nil && !status.State.Over() {
		return false, nil
	}
	drive, err := k.Control.Drive(ctx, run)
	return err == nil && !drive.Running, err
}
