package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/rollout"
)

// removedFor is how long it is remembered that somebody took a bought engine out of the fleet.
const removedFor = 24 * time.Hour

// Bought is the members that scaling has bought, as its pool wants to know them, and all engines.
func (r *Registry) Bought(ctx context.Context) (bought []enginepool.Member, all []rollout.Engine, err error) {
	w := r.Watch()
	if all, _, err = w.Engines(ctx); err != nil {
		return nil, nil, err
	}
	for _, e := range all {
		m := w.members[e.ID]
		if m.Source != SourceScaling {
			continue
		}
		bought = append(bought, enginepool.Member{
			ID: m.ID, URL: m.URL, State: e.State, Reason: e.Reason, Since: e.Since, Drain: m.Drain,
			Recalled: m.Drain && m.Now, Leave: m.Leave,
			Idle: !e.Load.At.IsZero() && e.Load.Running+e.Load.Waiting == 0, IdleAt: e.Load.At,
		})
	}
	return bought, all, nil
}

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

// noteRemoved remembers that somebody took a bought engine out of the fleet: to its pool, one that is merely forgotten
// looks the same, and joins again.
func (r *Registry) noteRemoved(ctx context.Context, id rollout.EngineID) error {
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.SAdd(ctx, r.removedKey(), string(id))
		tx.Expire(ctx, r.removedKey(), removedFor)
		return nil
	})
	if err != nil {
		return redisError("remove engine "+string(id), err)
	}
	return nil
}

// Removed is the bought engines that somebody has taken out of the fleet of late.
func (r *Registry) Removed(ctx context.Context) ([]rollout.EngineID, error) {
	texts, err := r.rdb.SMembers(ctx, r.removedKey()).Result()
	if err != nil {
		return nil, redisError("list removed engines", err)
	}
	ids := make([]rollout.EngineID, len(texts))
	for i, text := range texts {
		ids[i] = rollout.EngineID(text)
	}
	return ids, nil
}

func (r *Registry) removedKey() string { return r.prefix + "scaling:removed" }
