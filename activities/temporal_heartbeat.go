package activities

import (
	"context"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"
)

// heartbeat reports life to Temporal: with details, as there are new ones, and again with the same.
type heartbeat struct {
	ctx  context.Context
	last atomic.Pointer[[]any]
	done chan struct{}
	gone chan struct{}
}

// startHeartbeat beats by itself until it is stopped or ctx is done.
func startHeartbeat(ctx context.Context, every time.Duration) *heartbeat {
	h := &heartbeat{ctx: ctx, done: make(chan struct{}), gone: make(chan struct{})}
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
				h.again()
			}
		}
	}()
	return h
}

func (h *heartbeat) beat(phaseIndex int, phase string) { h.tell(phaseIndex, phase) }

// tell reports details, which stay what is known of the activity until others are told.
func (h *heartbeat) tell(details ...any) {
	h.last.Store(&details)
	activity.RecordHeartbeat(h.ctx, details...)
}

func (h *heartbeat) again() {
	if last := h.last.Load(); last != nil {
		activity.RecordHeartbeat(h.ctx, *last...)
		return
	}
	activity.RecordHeartbeat(h.ctx)
}

func (h *heartbeat) stop() {
	close(h.done)
	<-h.gone
}
