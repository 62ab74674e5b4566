package activities

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/millrace/millrace/internal/rollout"
)

// typed makes err an error that Temporal understands: permanent failures and the game's own are not
// tried again, and the type names the failure's code. This is the one place where our errors become Temporal's.
func typed(err error) error { return typedAfter(err, 0) }

// typedAfter is typed for a failure that must not be retried before a delay; 0 leaves the delay to the workflow.
func typedAfter(err error, delay time.Duration) error {
	if err == nil {
		return nil
	}
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return err
	}
	code := rollout.CodeInternal
	var failure *rollout.Failure
	var refusal *rollout.Refusal
	switch {
	case errors.As(err, &failure):
		code = failure.Code
	case errors.As(err, &refusal):
		code = rollout.Code(refusal.Code)
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(code), temporal.ApplicationErrorOptions{
		NonRetryable:   final(err),
		Cause:          err,
		NextRetryDelay: delay,
	})
}

// Bounds of the pause after a failed attempt at a game, which doubles from one to the other.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// pauseAfter is the pause of a game after so many attempts, the last of which failed. The death of a worker is no
// failure: the workflow retries at once, however often it happens.
func pauseAfter(attempts int) time.Duration {
	return min(firstPause<<min(max(attempts, 1)-1, 10), lastPause)
}

// final reports whether trying again is pointless.
func final(err error) bool {
	if rollout.KindOf(err) != rollout.Retryable {
		return true
	}
	for _, code := range []rollout.RefusalCode{rollout.Fenced, rollout.Invalid, rollout.Conflict, rollout.NoSuchRun,
		rollout.RunOver} {
		if rollout.Refused(err, code) {
			return true
		}
	}
	return false
}

// Code is the code of an error that came back from an activity, for counting; CodeInternal when it has none.
func Code(err error) rollout.Code {
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.Type() != "" {
		return rollout.Code(app.Type())
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return rollout.CodeTimeout
	}
	var canceled *temporal.CanceledError
	if errors.As(err, &canceled) {
		return rollout.CodeCancelled
	}
	return rollout.CodeInternal
}

// Final reports whether an error that came back from an activity was one not worth trying again, with whatever engine.
func Final(err error) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.NonRetryable() && app.Type() != string(codeEngineLeaves)
}
