package delivery

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/rollout"
)

// ForgetSink forgets a sink without a shipper: its dead letters, its counts, and thereby its cursors. Events are no
// longer kept for it. A later sink begins anew, with a higher fence. It is refused while a server has the lease.
func (s *Sink) ForgetSink(ctx context.Context) error {
	switch busy, err := s.redis.Exists(ctx, s.lease().Key).Result(); {
	case err != nil:
		return fmt.Errorf("forget the sink: %w", err)
	case busy > 0:
		return rollout.Refuse(rollout.Conflict, "a server delivers: take AXIOM_TOKEN and AXIOM_DATASET from all servers "+
			"and restart them, then ask again")
	}
	keys := append([]string{s.sinkKey(), s.countedKey()}, s.letterKeys()...)
	if err := s.redis.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("forget the sink: %w", err)
	}
	return nil
}
