package buffer

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/store/redisserver"
)

// trouble wraps what Redis or the way to it did wrong; nil is nil. When waiting may help, the error is a refusal with
// code Unavailable besides; it is retryable in any case.
func trouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	what := redisserver.Outage(err)
	if what == "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, rollout.Refuse(rollout.Unavailable, "%s", what), err)
}
