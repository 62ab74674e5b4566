package activities

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
)

// Heartbeats is how games tell Temporal that they go on: a Temporal client. The SDK's own way,
// activity.RecordHeartbeat, ends an activity whose heartbeat does not get through, and waits for Temporal meanwhile.
// A game has its journal: it need not end because Temporal is unavailable.
type Heartbeats interface {
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
}

// answer is what Temporal makes of a heartbeat.
type answer int

const (
	goOn        answer = iota // it has heard
	ordered                   // it wants the activity to end: cancelled, paused or reset
	forgotten                 // it waits for the activity no more: it took it for dead, or the group's workflow is over
	unavailable               // it does not say
)

func answerOf(err error) answer {
	var notFound *serviceerror.NotFound
	switch {
	case err == nil:
		return goOn
	case temporal.IsCanceledError(err), errors.Is(err, activity.ErrActivityPaused),
		errors.Is(err, activity.ErrActivityReset):
		return ordered
	case errors.As(err, &notFound):
		return forgotten
	}
	return unavailable
}

// mostLeeway is how long before its limit a heartbeat is sent at most: long enough to send it twice.
const mostLeeway = 5 * time.Second

// beatEvery is how often an activity with this heartbeat timeout must be heard of.
func beatEvery(timeout time.Duration) time.Duration {
	if timeout <= 0 {
		return time.Minute
	}
	return max(timeout*4/5, timeout-mostLeeway)
}

// progress is what heartbeats tell of a game. The zero value tells nothing.
type progress struct {
	last atomic.Pointer[[]any]
	news chan struct{} // if not nil, it is worth a heartbeat that there is some
}

func (p *progress) beat(phaseIndex int, phase string) { p.tell(phaseIndex, phase) }

// tell says what heartbeats tell from now on. It waits for nothing.
func (p *progress) tell(details ...any) {
	p.last.Store(&details)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *progress) details() []any {
	if last := p.last.Load(); last != nil {
		return *last
	}
	return nil
}
