package runkeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// purgeFor bounds one attempt to remove what a deleted run held.
const purgeFor = 10 * time.Minute

// Retention is how long ended runs are kept. The zero value keeps them until they are deleted by hand.
type Retention struct {
	For  time.Duration // after the end of a run; 0: for good
	Runs int           // how many runs that are over, the newest ones; 0: all
}

const (
	// expireAtOnce bounds how many runs are deleted in a round.
	expireAtOnce = 64
	// lastRead is how long after its end a run is kept whatever their number: its trainer may still read.
	lastRead = time.Minute
)

// expire deletes runs that have been over for longer, or are more, than are to be kept.
func (k *Keeper) expire(ctx context.Context) error {
	if k.Retention == nil {
		return nil
	}
	keep := k.Retention()
	if keep == (Retention{}) {
		return nil
	}
	now := time.Now()
	var before time.Time
	if keep.For > 0 {
		before = now.Add(-keep.For)
	}
	runs, err := k.Buffer.Expired(ctx, before, keep.Runs, now.Add(-lastRead), expireAtOnce)
	if err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		deleted, err := k.Buffer.DeleteOver(ctx, run)
		faults = append(faults, err)
		if deleted {
			k.Log.Info("a run is deleted: it has been over for longer, or more have ended since, than are kept", "run", run,
				"retention", keep.For, "retention_runs", keep.Runs)
		}
	}
	return errors.Join(faults...)
}

// purge removes what deleted runs held. What fails is tried again in the next round.
func (k *Keeper) purge(ctx context.Context) error {
	runs, err := k.Buffer.Deleting(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, run := range runs {
		if err := k.purgeOne(ctx, run); err != nil {
			faults = append(faults, fmt.Errorf("run %s: %w", run, err))
		}
	}
	return errors.Join(faults...)
}

// purgeOne removes what a run held: first its adapters, which may hold up the fleet, and last the record that there
// is something left.
func (k *Keeper) purgeOne(ctx context.Context, run rollout.RunName) error {
	ctx, cancel := context.WithTimeout(ctx, purgeFor)
	defer cancel()
	if err := k.Control.UnwantAdapters(ctx, run); err != nil {
		return err
	}
	if err := k.Control.Erase(ctx, run); err != nil {
		return err
	}
	if err := k.Control.UnwantAdapters(ctx, run); err != nil { // of a publication that was under way
		return err
	}
	if err := k.Events.Delete(ctx, run); err != nil {
		return fmt.Errorf("delete events: %w", err)
	}
	if err := k.Buffer.Purge(ctx, run); err != nil {
		return err
	}
	k.Log.Info("what a deleted run held is removed", "run", run)
	return nil
}

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
