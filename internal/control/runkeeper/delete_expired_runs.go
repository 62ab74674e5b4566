package runkeeper

import (
	"context"
	"errors"
	"time"
)

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
