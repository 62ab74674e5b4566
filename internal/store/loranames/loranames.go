// Package loranames keeps by which names a client of a run calls the versions that it has loaded, and whether its
// requests are held: in Redis, so that every server answers alike. The names are the client's own; the engines know
// a version by its own name. Start reading at Names.
package loranames

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// Loaded is what a name stands for.
type Loaded struct {
	Version rollout.PolicyVersion `json:"version"`
	Path    string                `json:"path"` // as the client wrote it
	At      int64                 `json:"at"`   // in Unix seconds
}

// Names are those of all runs.
type Names struct {
	rdb    redis.UniversalClient
	prefix string
}

// New makes Names under a prefix, which is also the buffer's: its Purge removes them with the run.
func New(rdb redis.UniversalClient, prefix string) *Names { return &Names{rdb, prefix} }

func (n *Names) key(run rollout.RunName) string { return n.prefix + ":{" + string(run) + "}:vllm" }

const (
	held = "held"
	lora = "lora:" // before a name
)

// Look is what one name stands for, nil if for nothing, and whether the run's requests are held.
func (n *Names) Look(ctx context.Context, run rollout.RunName, name string) (found *Loaded, isHeld bool, err error) {
	values, err := n.rdb.HMGet(ctx, n.key(run), lora+name, held).Result()
	if err != nil {
		return nil, false, fmt.Errorf("look for %s of run %s: %w", name, run, err)
	}
	if text, is := values[0].(string); is {
		found = &Loaded{}
		if err := json.Unmarshal([]byte(text), found); err != nil {
			return nil, false, fmt.Errorf("%s of run %s: %w", name, run, err)
		}
	}
	return found, values[1] != nil, nil
}

// All is every name, and whether the run's requests are held.
func (n *Names) All(ctx context.Context, run rollout.RunName) (all map[string]Loaded, isHeld bool, err error) {
	fields, err := n.rdb.HGetAll(ctx, n.key(run)).Result()
	if err != nil {
		return nil, false, fmt.Errorf("list the names of run %s: %w", run, err)
	}
	all = map[string]Loaded{}
	for field, text := range fields {
		name, is := strings.CutPrefix(field, lora)
		if !is {
			continue
		}
		var one Loaded
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, false, fmt.Errorf("%s of run %s: %w", name, run, err)
		}
		all[name] = one
	}
	return all, fields[held] != "", nil
}

// Set has a name stand for a version, whatever it stood for before.
func (n *Names) Set(ctx context.Context, run rollout.RunName, name string, to Loaded) error {
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	return n.rdb.HSet(ctx, n.key(run), lora+name, text).Err()
}

// Remove takes a name back, and reports whether it was there.
func (n *Names) Remove(ctx context.Context, run rollout.RunName, name string) (was bool, err error) {
	removed, err := n.rdb.HDel(ctx, n.key(run), lora+name).Result()
	return removed == 1, err
}

// Hold holds the run's requests, or lets them go on.
func (n *Names) Hold(ctx context.Context, run rollout.RunName, hold bool) error {
	if !hold {
		return n.rdb.HDel(ctx, n.key(run), held).Err()
	}
	return n.rdb.HSet(ctx, n.key(run), held, 1).Err()
}
