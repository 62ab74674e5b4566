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
