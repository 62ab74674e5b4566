package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/millrace/millrace/internal/rollout"
)

// runWithHeartbeat plays on a goroutine of its own. This one tells Temporal meanwhile that the game goes on, which it
// also does when requests wait in the queue for hours, until a call of its environment hangs. Then the game is left
// behind: a goroutine cannot be stopped, so it goes on hanging, and is counted.
//
// While many calls of its run's environment hang in this process already, nothing more of that run is begun here.
func runWithHeartbeat[T any](ctx context.Context, at *attempt, play func(context.Context) (T, error)) (T, error) {
	outer, run := ctx, at.plan.Ref.Run
	if err := at.awaitHangingCalls(ctx); err != nil {
		var none T
		return none, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan ending[T], 1)
	go func() {
		e := ending[T]{err: errors.New("its goroutine exited")}
		defer func() {
			if r := recover(); r != nil {
				at.Log.Error("an attempt at a game panicked", "game", at.name(), "panic", r, "stack", string(debug.Stack()))
				e.err = rollout.Fail(rollout.Retryable, rollout.CodePanic, fmt.Errorf("%v", r))
			}
			ended <- e
		}()
		e.result, e.err = play(ctx)
	}()
	ticker := time.NewTicker(at.lookEvery())
	defer ticker.Stop()
	stop := activity.GetWorkerStopChannel(outer)
	var instead error // why it was ended
	for {
		select {
		case e := <-ended:
			if e.err != nil && instead != nil {
				e.err = instead
			}
			return e.result, e.err
		case <-stop:
			stop, instead = nil, errWorkerStopped
			cancel()
		case <-ticker.C:
			if instead == nil {
				if instead = at.unserved(outer); instead != nil {
					cancel()
				}
			}
			if err := at.watch.Leave(at.Now()); err != nil {
				at.Log.Warn("left a game behind, whose environment hangs", "game", at.name(), "error", err, "hanging",
					at.HangingCalls.Count()+1)
				back := at.HangingCalls.leave(run, at.Now())
				go func() {
					<-ended
					back()
					at.Log.Info("a call of an environment returned after its game was left behind", "game", at.name(), "hanging",
						at.HangingCalls.Count())
				}()
				var none T
				return none, err
			}
			at.heartbeat.again()
		}
	}
}

// ending is how a game ended.
type ending[T any] struct {
	result T
	err    error
}

// lookEvery is how often a game tells that it goes on, and whether its environment hangs is looked at.
func (at *attempt) lookEvery() time.Duration {
	every := max(at.plan.Timeouts.Heartbeat.Std()/3, time.Second)
	if limit := at.plan.Timeouts.PhaseLimit().Std(); limit > 0 {
		every = min(every, max(limit/4, time.Second/10))
	}
	return every
}
