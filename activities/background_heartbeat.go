package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeat tells Temporal that an activity, which is no game, goes on.
type heartbeat struct {
	done chan struct{}
	gone chan struct{}
}

// startHeartbeat beats by itself until it is stopped or ctx is done.
func startHeartbeat(ctx context.Context, every time.Duration) *heartbeat {
	h := &heartbeat{done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(h.gone)
		ticker := time.NewTicker(max(every, time.Second))
		defer ticker.Stop()
		for {
			select {
			case <-h.done:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	return h
}

func (h *heartbeat) stop() {
	close(h.done)
	<-h.gone
}
