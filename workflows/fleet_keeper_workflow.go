package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// keepFor is how long one keeper works before the workflow starts the next, so that histories stay short.
const keepFor = time.Hour

// Fleet keeps the engines, forever: it runs one keeper at a time on whichever worker is alive. When that
// worker dies, its heartbeats stop and another one takes over.
func Fleet(ctx workflow.Context) error {
	keeping := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: keepFor + time.Minute,
		HeartbeatTimeout:    10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 200 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	})
	const shifts = 24
	for range shifts {
		err := workflow.ExecuteActivity(keeping, acts.KeepFleet, keepFor).Get(ctx, nil)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			workflow.GetLogger(ctx).Warn("a keeper ended early; starting another", "error", err)
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}
	return workflow.NewContinueAsNewError(ctx, Fleet)
}
