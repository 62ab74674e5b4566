package buffer

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// quietFor is how long a subscription may be silent before it is asked whether it lives; so long again it may take to
// answer.
const quietFor = 5 * time.Second

// Follow calls changed with every run that may have a new batch: a group has become ready or left, a step was granted
// or completed, limits or versions have changed. It calls began once it hears of all further changes, and returns, with
// the reason, when it no longer does. Changes before began, and those lost with the connection, the caller must look
// for.
func (s *Store) Follow(ctx context.Context, began func(), changed func(rollout.RunName)) error {
	heard := s.rdb.Subscribe(ctx, s.prefix+":changed")
	defer heard.Close()
	asked := false // whether it lives
	for {
		message, err := heard.ReceiveTimeout(ctx, quietFor)
		var silent net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &silent) && silent.Timeout() && !asked:
			if err := heard.Ping(ctx); err != nil {
				return trouble("follow changes", err)
			}
			asked = true
			continue
		case err != nil:
			return trouble("follow changes", err)
		}
		asked = false
		switch message := message.(type) {
		case *redis.Subscription:
			began()
		case *redis.Message:
			changed(rollout.RunName(message.Payload))
		}
	}
}
