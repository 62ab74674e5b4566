package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/buffer"
)

// maxAttempts bounds the attempts at one game that are held against it, deaths of its worker included; each goes on
// where the last one stopped.
const maxAttempts = 20

// errWorkerStopped ends what a worker plays when it is told to stop.
var errWorkerStopped = rollout.Fail(rollout.Retryable, rollout.CodeWorkerStopped,
	errors.New("its worker was told to stop; the game goes on elsewhere"))

// game is what is attempted, as the buffer calls it.
func (at *attempt) game() buffer.GameRef {
	return buffer.GameRef{EpisodeRef: at.ref, WarmUp: at.warmUp}
}

// begin fences off the attempts before this one. It reports whether one of them has finished the game, and fails when
// enough of them have failed or died.
func (at *attempt) begin(ctx context.Context) (finished bool, err error) {
	at.number, at.counted = at.temporalAttempt, at.temporalAttempt // as far as is known when the buffer does not answer
	begun, err := at.Buffer.Begin(ctx, at.game(), at.started, at.temporalAttempt)
	if err != nil {
		return false, err
	}
	if begun.Finished {
		return true, nil
	}
	at.number, at.counted, at.excused = begun.Number, begun.Counted, begun.Excused
	if at.counted > maxAttempts {
		err := fmt.Errorf("attempt %d at %s: the workers of earlier ones have died or fallen silent too often",
			at.number, at.name())
		return false, rollout.Fail(rollout.GameFault, rollout.CodeTimeout, err)
	}
	return false, nil
}

// failed reports how the attempt ended without a result, and returns the error for Temporal. A stopping worker and a
// model that no engine serves (yet) do not count as failures: the game goes on elsewhere, or later.
func (at *attempt) failed(ctx context.Context, err error) error {
	if errors.Is(err, errTakenOver) {
		return temporal.NewApplicationErrorWithOptions(err.Error(), string(rollout.CodeSuperseded),
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign})
	}
	if ctx.Err() != nil {
		code := at.ended(ctx)
		at.report(code, context.Cause(ctx), code == rollout.CodeCancelled)
		return ctx.Err()
	}
	code := failureCode(err)
	switch {
	case rollout.Refused(err, rollout.Fenced):
		code = at.standing(ctx)
		if code == rollout.CodeSuperseded {
			at.excuse(ctx, at.number) // it was alive, so whatever took it for dead was no fault of the game's
		}
		at.report(code, err, code == rollout.CodeCancelled)
		return typed(err)
	case errors.Is(err, errTooManyHanging):
		return at.unbegun(ctx, err)
	case code == rollout.CodeWorkerStopped:
		at.excuse(ctx, at.number)
		return typed(err)
	case code == rollout.CodeUnserved, code == rollout.CodeEnvironmentUnavailable, code == rollout.CodePolicyUnavailable:
		if at.excused == 0 {
			at.report(code, err, false)
		}
		at.excuse(ctx, at.number)
		return typedAfter(err, restUnserved(at.excused))
	case (code == rollout.CodeNoEngine || code == rollout.CodePhaseDeadline) && at.awaitedFleet():
		at.excuse(ctx, at.number) // the fleet takes longer to wake than a request, or a phase, may wait
		return typedAfter(err, restUnserved(at.excused))
	case at.counted >= maxAttempts && !final(err):
		err = rollout.Fail(rollout.GameFault, code, fmt.Errorf("given up after %d attempts: %w", at.counted, err))
	}
	at.report(code, err, final(err))
	return typedAfter(err, pauseAfter(at.counted))
}

// ended is why Temporal, or the time that it gave, ended the attempt. Temporal says when it wants the game no more. In
// all other cases it could not be reached for long, or has given up on the attempt: then the buffer knows whether the
// game goes on.
func (at *attempt) ended(ctx context.Context) rollout.Code {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return rollout.CodeTimeout
	case temporal.IsCanceledError(context.Cause(ctx)):
		return rollout.CodeCancelled
	}
	return at.standing(ctx)
}

// keepPatience bounds how long the end of an attempt waits for the buffer.
const keepPatience = 2 * time.Second

// standing is why the buffer takes no more of the attempt's game: its group is over, or another attempt plays it.
func (at *attempt) standing(ctx context.Context) rollout.Code {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	inPlay, err := at.Buffer.InPlay(ctx, at.plan.Ref)
	switch {
	case rollout.Refused(err, rollout.NoSuchRun), err == nil && !inPlay:
		return rollout.CodeCancelled
	}
	return rollout.CodeSuperseded
}

// excuse has the attempt not held against the game. When the buffer does not answer, it is.
func (at *attempt) excuse(ctx context.Context, number int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepPatience)
	defer cancel()
	if err := at.Buffer.Excuse(ctx, at.game(), number); err != nil {
		at.Log.Warn("an attempt that is nobody's failure counts as one", "game", at.name(), "error", err)
	}
}
