package runcontrol

import (
	"context"
	"errors"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/run/alarm/noworker"
)

// Rhythm: after how long without an answer a caller is told what is missing, if it is known, and how long Temporal may
// take to show that it lives. Together they bound an operator's wait when no process can answer.
const (
	whyAfter    = 2 * time.Second
	healthyWait = 2 * time.Second
)

// answered makes a call that a run's workflow must answer. If Temporal or a worker is missing, it says so and does not
// wait for the call's own deadline. A change that was cut off may still be made later; repeating it does no harm.
func answered[T any](ctx context.Context, c Control, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(whyAfter, func() {
		if why := c.unanswered(ctx); why != nil {
			cancel(why)
		}
	})
	defer late.Stop()
	result, err := do(ctx)
	var why *rollout.Refusal
	if err != nil && errors.As(context.Cause(ctx), &why) {
		return result, why
	}
	return result, err
}

// unanswered is why the run's workflow cannot answer, or nil.
func (c Control) unanswered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthyWait)
	defer cancel()
	if err := c.Reachable(ctx); err != nil {
		return rollout.Refuse(rollout.Unavailable,
			"Temporal does not answer, and without it no run can be changed; claims and records go on meanwhile, try this again")
	}
	workers, err := c.workers.List(ctx)
	if err != nil {
		return nil // Redis has its own errors
	}
	if a, alone := noworker.Alarm(time.Now(), workers); alone {
		return rollout.Refuse(rollout.Unavailable, "%s; %s, then try this again", a.Text, a.Advice)
	}
	return nil
}
