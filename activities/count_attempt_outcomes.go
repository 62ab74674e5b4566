package activities

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// countPatience bounds how long an attempt that has ended waits until it is counted: figures are not worth a game's
// time.
const countPatience = 2 * time.Second

// countFailure counts the attempt as failed, and tells of it, unless nothing failed: its game is not wanted any more,
// or goes on elsewhere. It reports whether it did.
func (at *attempt) countFailure(failed runstatus.FailedAttempt) bool {
	if failed.Code == rollout.CodeCancelled || failed.Code == rollout.CodeSuperseded {
		return false
	}
	return at.count(context.Background(), func(ctx context.Context) error {
		return at.Buffer.AttemptFailed(ctx, failed)
	})
}

// countFinished counts a game that was played to its end.
func (at *attempt) countFinished(ctx context.Context, ep rollout.Episode) {
	at.count(ctx, func(ctx context.Context) error { return at.Buffer.GameFinished(ctx, at.ref.Run, at.Now(), ep.Counts) })
}

// countProgress notes that a game which an earlier attempt had not finished got further.
func (at *attempt) countProgress(ctx context.Context) {
	if at.number > 1 && !at.warmUp {
		at.count(ctx, func(ctx context.Context) error { return at.Buffer.GameAdvanced(ctx, at.ref.Run, at.Now()) })
	}
}

// count does one of the above, and reports whether it could. A failure costs a figure and never a game.
func (at *attempt) count(ctx context.Context, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	err := do(ctx)
	if err != nil {
		at.Log.Warn("a try at a game is not counted", "game", at.name(), "error", err)
	}
	return err == nil
}
