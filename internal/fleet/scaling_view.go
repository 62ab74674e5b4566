package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/enginepool"
)

// SourceScaling is the Source of members that scaling has bought.
const SourceScaling = "scaling"

// SaveScaling keeps what is told of a fleet that is scaled, in the place of what was told before.
func (r *Registry) SaveScaling(ctx context.Context, v enginepool.View) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("save what scaling does: %w", err)
	}
	if err := r.rdb.Set(ctx, r.scalingKey(), text, 0).Err(); err != nil {
		return redisError("save what scaling does", err)
	}
	return nil
}

// Scaling is what is told of a fleet that is scaled; false: it never was.
func (r *Registry) Scaling(ctx context.Context) (v enginepool.View, scaled bool, err error) {
	text, err := r.rdb.Get(ctx, r.scalingKey()).Bytes()
	if errors.Is(err, redis.Nil) {
		return v, false, nil
	}
	if err != nil {
		return v, false, redisError("read what scaling does", err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, false, fmt.Errorf("what scaling does: %w", err)
	}
	return v, true, nil
}

// EndScaling says that nobody scales the fleet any more, since a time: its engines are left as they are.
func (r *Registry) EndScaling(ctx context.Context, at time.Time) error {
	v, scaled, err := r.Scaling(ctx)
	if err != nil || !scaled || !v.EndedAt.IsZero() {
		return err
	}
	v.EndedAt = at
	v.Why = "no worker's configuration has a section `scaling` any more; engines are left as they are"
	return r.SaveScaling(ctx, v)
}

// Scaled is what is told of a fleet that is scaled now; nil: it is not, or not any more.
func (r *Registry) Scaled(ctx context.Context) (*enginepool.View, error) {
	v, scaled, err := r.Scaling(ctx)
	if err != nil || !scaled || !v.EndedAt.IsZero() {
		return nil, err
	}
	return &v, nil
}

func (r *Registry) scalingKey() string { return r.prefix + "scaling" }
