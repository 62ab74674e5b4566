package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Holding is what this deployment asked an engine to load under a name. It is written down before the engine is asked,
// and struck out when the engine is known not to have it: an engine may have what is written down, and has nothing else
// of ours.
type Holding struct {
	Path   string    `json:"path"`
	Digest string    `json:"digest,omitempty"`
	At     time.Time `json:"at"`
}

// of reports whether it is this adapter's weights.
func (h Holding) of(a Adapter) bool { return samePath(h.Path, a.Path) && h.Digest == a.Digest }

func (r *Registry) holdingsKey(id rollout.EngineID) string { return r.prefix + "held:" + string(id) }

// Hold writes down that an engine is about to be asked to load an adapter.
func (r *Registry) Hold(ctx context.Context, id rollout.EngineID, a Adapter) error {
	b, err := json.Marshal(Holding{Path: a.Path, Digest: a.Digest, At: r.now().UTC()})
	if err == nil {
		err = r.rdb.HSet(ctx, r.holdingsKey(id), a.Name, b).Err()
	}
	if err != nil {
		return fmt.Errorf("note that %s is to load %s: %w", id, a.Name, err)
	}
	return nil
}

// Release strikes out what an engine has no more. What it never had is no error.
func (r *Registry) Release(ctx context.Context, id rollout.EngineID, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	if err := r.rdb.HDel(ctx, r.holdingsKey(id), names...).Err(); err != nil {
		return fmt.Errorf("note that %s has unloaded %s: %w", id, names[0], err)
	}
	return nil
}

// Held is what an engine was asked to load, by name.
func (r *Registry) Held(ctx context.Context, id rollout.EngineID) (map[string]Holding, error) {
	values, err := r.rdb.HGetAll(ctx, r.holdingsKey(id)).Result()
	if err != nil {
		return nil, fmt.Errorf("read what %s was asked to load: %w", id, err)
	}
	held := map[string]Holding{}
	for name, text := range values {
		var h Holding
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			return nil, fmt.Errorf("holding %s of %s: %w", name, id, err)
		}
		held[name] = h
	}
	return held, nil
}

// Holders are the members that were asked to load something under a name, and what.
func (r *Registry) Holders(ctx context.Context, name string) (map[rollout.EngineID]Holding, error) {
	members, err := r.Members(ctx)
	if err != nil {
		return nil, err
	}
	asked := make([]*redis.StringCmd, len(members))
	_, err = r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, m := range members {
			asked[i] = p.HGet(ctx, r.holdingsKey(m.ID), name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read who was asked to load %s: %w", name, err)
	}
	holders := map[rollout.EngineID]Holding{}
	for i, answer := range asked {
		text, err := answer.Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		var h Holding
		if err == nil {
			err = json.Unmarshal([]byte(text), &h)
		}
		if err != nil {
			return nil, fmt.Errorf("holding %s of %s: %w", name, members[i].ID, err)
		}
		holders[members[i].ID] = h
	}
	return holders, nil
}
