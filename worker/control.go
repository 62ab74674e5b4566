package worker

import (
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/workflows"
)

// control is the workflows as the API sees them, with what only the buffer knows: a run is known there before Temporal
// has it, and stays known when its workflow has ended.
type control struct {
	*workflows.Client
	buffer statuses
}

// statuses is what control needs of the buffer.
type statuses interface {
	Open(ctx context.Context, spec rollout.Spec) error
	Status(ctx context.Context, run rollout.RunName) (rollout.RunStatus, error)
}

// Start starts a run that can be read at once.
func (c control) Start(ctx context.Context, spec rollout.Spec) (rollout.RunStatus, bool, error) {
	if err := c.buffer.Open(ctx, spec); err != nil {
		return rollout.RunStatus{}, false, err
	}
	return c.Client.Start(ctx, spec)
}

// Change changes a run that goes on.
func (c control) Change(ctx context.Context, run rollout.RunName, change rollout.Change) (rollout.RunStatus, error) {
	status, err := c.Client.Change(ctx, run, change)
	return status, c.ended(ctx, run, err)
}

// Stop ends a run; one that has ended stays as it is.
func (c control) Stop(ctx context.Context, run rollout.RunName, reason string) (rollout.RunStatus, error) {
	status, err := c.Client.Stop(ctx, run, reason)
	if rollout.Refused(c.ended(ctx, run, err), rollout.RunOver) {
		return c.buffer.Status(ctx, run)
	}
	return status, err
}

// Publish loads a version on the engines and switches to it.
func (c control) Publish(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string) (rollout.Policy, error) {
	policy, err := c.Client.Publish(ctx, run, v, path)
	return policy, c.ended(ctx, run, err)
}

// ended tells a run that has ended, which has no workflow any more, from one that never was.
func (c control) ended(ctx context.Context, run rollout.RunName, err error) error {
	if !rollout.Refused(err, rollout.NoSuchRun) {
		return err
	}
	status, known := c.buffer.Status(ctx, run)
	if known == nil && status.State.Over() {
		return rollout.Refuse(rollout.RunOver, "run %s is %s; only a run that goes on can be changed", run, status.State)
	}
	return err
}

// warnWithoutTemporal says once, at the start of a server, that Temporal does not answer: claims are served all the same,
// but nobody can start a run.
func warnWithoutTemporal(ctx context.Context, c client.Client, address string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil && ctx.Err() != context.Canceled {
		log.Warn("Temporal does not answer; claims and records are served, runs cannot be started or changed until it does", "address", address, "error", err)
	}
}
