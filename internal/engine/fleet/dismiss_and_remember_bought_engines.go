package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// SourceScaling is the Source of members that scaling has bought.
const SourceScaling = "scaling"

// removedFor is how long the removal of a bought engine from the fleet is remembered.
const removedFor = 24 * time.Hour

// Dismiss takes a bought engine out of the fleet on behalf of its pool, at once; what it has is dispatched elsewhere.
// One that is not there is no error.
func (r *Registry) Dismiss(ctx context.Context, id rollout.EngineID) error {
	err := r.updateMember(ctx, id, func(m *Member) error {
		m.Drain, m.Leave, m.Now = true, true, true
		return nil
	})
	if err != nil && !rollout.Refused(err, rollout.NoSuchEngine) {
		return fmt.Errorf("dismiss engine: %w", err)
	}
	return nil
}

// noteRemoved records that a bought engine was removed from the fleet. Without the record its pool would take it for
// one that was merely forgotten, and let it join again.
func (r *Registry) noteRemoved(ctx context.Context, id rollout.EngineID) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.SAdd(ctx, r.removedKey(), string(id))
		tx.Expire(ctx, r.removedKey(), removedFor)
		return nil
	})
	return redisError("remove engine "+string(id), err)
}

// Removed lists the bought engines that were recently removed from the fleet.
func (r *Registry) Removed(ctx context.Context) ([]rollout.EngineID, error) {
	var ids []rollout.EngineID
	err := r.rdb.SMembers(ctx, r.removedKey()).ScanSlice(&ids)
	return ids, redisError("list removed engines", err)
}

func (r *Registry) removedKey() string { return r.prefix + "scaling:removed" }
