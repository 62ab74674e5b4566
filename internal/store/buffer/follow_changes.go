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

// Follow calls changed with every run of which a batch may be there now that was not before: a group has become ready
// or left, a step was granted or completed, limits or versions have changed. It calls began as soon as it hears of all
// changes from then on, and returns when that is no longer so, with the reason. What changed before it began, and what
// is lost with the connection, is the caller's to look for.
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
