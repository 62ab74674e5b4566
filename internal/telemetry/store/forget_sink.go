package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// ForgetSink forgets a sink that nobody ships to any more: its cursors, its dead letters and what was counted. Events
// are no longer kept for it. A sink of the same name that comes later begins anew, with a higher fence. It is refused
// while a server has the lease.
func (s *Store) ForgetSink(ctx context.Context, sink string) error {
	switch busy, err := s.rdb.Exists(ctx, s.leaseKey(sink)).Result(); {
	case err != nil:
		return fmt.Errorf("forget sink %s: %w", sink, err)
	case busy > 0:
		return rollout.Refuse(rollout.Conflict, "a server delivers to %s: take AXIOM_TOKEN and AXIOM_DATASET from all "+
			"servers and restart them, then ask again", sink)
	}
	fields, err := s.rdb.HGetAll(ctx, s.sinksKey()).Result()
	if err != nil {
		return fmt.Errorf("forget sink %s: %w", sink, err)
	}
	gone := []string{"since " + sink, "seen " + sink}
	for field := range countsOf(fields, sink) {
		gone = append(gone, field)
	}
	scopes, err := s.allScopes(ctx)
	if err != nil {
		return err
	}
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HDel(ctx, s.sinksKey(), gone...)
		p.Del(ctx, s.sinkStatusKey(sink))
		for _, key := range []string{"", ":all", ":ids"} {
			p.Unlink(ctx, s.deadKey(sink)+key)
		}
		for _, scope := range scopes {
			p.Del(ctx, s.cursorKey(scope, sink))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget sink %s: %w", sink, err)
	}
	s.forgetWindows(sink, nil)
	return nil
}
