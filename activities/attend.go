package activities

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
)

// attended plays on a goroutine of its own. This one tells Temporal meanwhile that the game goes on, which it also does when
// requests wait in the queue for hours, until a call of its environment hangs. Then the game is left behind: a
// goroutine cannot be stopped, so it goes on hanging, and is counted.
func attended[T any](ctx context.Context, at *attempt, play func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan ending[T], 1)
	go func() {
		e := ending[T]{err: errors.New("its goroutine exited")}
		defer func() {
			if r := recover(); r != nil {
				at.Log.Error("an attempt at a game panicked", "game", at.name(), "panic", r, "stack", string(debug.Stack()))
				e.err = rollout.Fail(rollout.Retryable, "panic", fmt.Errorf("%v", r))
			}
			ended <- e
		}()
		e.result, e.err = play(ctx)
	}()
	ticker := time.NewTicker(at.lookEvery())
	defer ticker.Stop()
	for {
		select {
		case e := <-ended:
			return e.result, e.err
		case <-ticker.C:
			if err := at.watch.Leave(at.Now()); err != nil {
				at.Log.Warn("left a game behind, whose environment hangs", "game", at.name(), "error", err, "hanging", at.Hanging.add(1))
				go func() {
					<-ended
					at.Log.Info("a call of an environment returned after its game was left behind", "game", at.name(), "hanging", at.Hanging.add(-1))
				}()
				var none T
				return none, err
			}
			at.heart.again()
		}
	}
}

// ending is how an attended game ended.
type ending[T any] struct {
	result T
	err    error
}

// lookEvery is how often an attended game tells that it goes on, and whether its environment hangs is looked at.
func (at *attempt) lookEvery() time.Duration {
	every := max(at.plan.Timeouts.Heartbeat.Std()/3, time.Second)
	if limit := at.plan.Timeouts.PhaseLimit().Std(); limit > 0 {
		every = min(every, max(limit/4, time.Second/10))
	}
	return every
}

// Hanging counts the calls of environments that were left behind and have not returned. The zero value is ready for use.
type Hanging struct{ n atomic.Int64 }

// MaxHanging is how many such calls a process may have. Each keeps its game's memory, and perhaps a whole core; only the end of
// the process ends it.
const MaxHanging = 8

// Count is how many there are.
func (h *Hanging) Count() int { return int(h.n.Load()) }

func (h *Hanging) add(d int64) int64 { return h.n.Add(d) }

// lookHangingEvery bounds how long a process with too many hanging calls goes on.
const lookHangingEvery = time.Second

// Tend returns when ctx is done, or with an error as soon as there are MaxHanging calls. The process should end then, so that
// whoever supervises it starts it afresh; its games go on elsewhere.
func (h *Hanging) Tend(ctx context.Context) error {
	ticker := time.NewTicker(lookHangingEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if n := h.Count(); n >= MaxHanging {
				return fmt.Errorf("%d calls of environments hang in this process, and only its end ends them: start it again; events rollout_error with code %s tell which calls", n, episode.EnvironmentHung)
			}
		}
	}
}
