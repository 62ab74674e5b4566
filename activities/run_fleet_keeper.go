package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// KeepFleet watches the engines for the given time, or until it is told to stop or its worker dies. It lets engines
// join, finds lost ones and loads missing adapters. One runs at a time. A second one, while a dead worker's has not
// timed out, does no harm: every step compares the actual with the wanted state.
func (a *Activities) KeepFleet(ctx context.Context, keepFor time.Duration) error {
	shift, cancel := context.WithTimeout(ctx, keepFor)
	defer cancel()
	ends := make(chan struct{})
	go func() {
		defer close(ends)
		a.Ends.Watch(shift)
	}()
	err := a.Fleet.Keep(shift, func() { activity.RecordHeartbeat(ctx) })
	cancel()
	<-ends
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return typed(err)
}
