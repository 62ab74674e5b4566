package live

import (
	"errors"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
)

// outcomeOf translates an engine's error for the scheduler. An error without a known code counts by its kind.
func outcomeOf(err error) dispatch.Outcome {
	switch rollout.CodeOf(err) {
	case rollout.CodeOverloaded:
		return dispatch.Overloaded
	case rollout.CodeUnknownModel:
		return dispatch.Missing
	case rollout.CodeAborted:
		return dispatch.Aborted
	case rollout.CodeTimeout:
		return dispatch.TimedOut
	case rollout.CodeEngineDead, rollout.CodeWrongModel, rollout.CodeUnauthorized, rollout.CodeNotAnEngine:
		return dispatch.Broken
	}
	switch {
	case rollout.KindOf(err) == rollout.Retryable:
		return dispatch.Failed
	case vllm.Unsent(err):
		return dispatch.Unfit
	}
	return dispatch.Refused
}

// retryAfter is how long an overloaded engine asked for patience; 0: it did not say.
func retryAfter(err error) time.Duration {
	var status *vllm.StatusError
	if errors.As(err, &status) {
		return status.RetryAfter
	}
	return 0
}
