package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// trouble wraps what Redis or the way to it did wrong; nil is nil. When waiting may help, the error is a refusal with
// code Unavailable besides; it is retryable in any case.
func trouble(doing string, err error) error {
	if err == nil {
		return nil
	}
	if !transient(err) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	refusal := rollout.Refuse(rollout.Unavailable, "the buffer's Redis does not answer, or cannot write, at the "+
		"moment, or refuses the service's password; ask again")
	return fmt.Errorf("%s: %w: %w", doing, refusal, err)
}

func transient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	for _, prefix := range []string{"LOADING", "READONLY", "OOM", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY",
		"MISCONF", "NOREPLICAS", "ASK", "MOVED", "NOAUTH", "WRONGPASS", "NOPERM"} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
