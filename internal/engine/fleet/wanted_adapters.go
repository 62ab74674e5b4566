package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
)

// Adapter is one version of one run's weights that every engine of its base model must serve. Name and Path never
// change meaning: engines key their prefix cache by the name and may read the path again at any time.
type Adapter struct {
	Run     rollout.RunName       `json:"run"`
	Version rollout.PolicyVersion `json:"version"`
	Name    string                `json:"name"`
	Path    string                `json:"path"`           // as the engines see it
	Base    string                `json:"base,omitempty"` // model that it adapts, as engines serve it; empty: any
	Digest  string                `json:"digest,omitempty"`
	Prefix  string                `json:"prefix,omitempty"` // of the run's adapters: nothing outside of it is read
	// ProbeBound is how far an engine's logprobs may be from those of the adapter's probes, in nats; 0: the default.
	ProbeBound float64 `json:"probe_bound,omitempty"`
}

// fits reports whether the adapter is one of an engine that serves these base models. Many a base model has the shape
// of another one, and an engine loads the adapters of either without a word.
func (a Adapter) fits(models []string) bool { return a.Base == "" || slices.Contains(models, a.Base) }

// files are the adapter's, as they were published.
func (a Adapter) files() adapterfiles.Published {
	return adapterfiles.Published{Name: a.Name, Prefix: a.Prefix, Path: a.Path, Digest: a.Digest}
}

// Want makes an adapter one that every engine must serve; engines that join or come back load it
// before they are ready. Wanting the same one again changes nothing; another path under a name is refused.
func (r *Registry) Want(ctx context.Context, a Adapter) error {
	if a.Name == "" || a.Path == "" {
		return rollout.Refuse(rollout.Invalid, "adapter %q at %q: both a name and a path are needed", a.Name, a.Path)
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	added, err := r.rdb.HSetNX(ctx, r.wantedKey(), a.Name, b).Result()
	if err != nil {
		return fmt.Errorf("want adapter %s: %w", a.Name, err)
	}
	if !added {
		return r.sameAsWanted(ctx, a)
	}
	return redisError("want adapter "+a.Name, r.rdb.ZRem(ctx, r.retiredKey(), a.Name).Err())
}

func (r *Registry) sameAsWanted(ctx context.Context, a Adapter) error {
	text, err := r.rdb.HGet(ctx, r.wantedKey(), a.Name).Result()
	if err != nil {
		return fmt.Errorf("want adapter %s: %w", a.Name, err)
	}
	old, err := decode[Adapter]("adapter "+a.Name, text)
	if err != nil {
		return err
	}
	if old.Path != a.Path || old.Digest != "" && a.Digest != "" && old.Digest != a.Digest {
		return rollout.Refuse(rollout.Conflict,
			"adapter %s serves %s (%s) already; new weights need a new version, not %s (%s) under the old name", a.Name,
			old.Path, runspec.ShortDigest(old.Digest), a.Path, runspec.ShortDigest(a.Digest))
	}
	return nil
}

// Unwant ends an adapter's service: every engine unloads it. A name that is not wanted is no error.
func (r *Registry) Unwant(ctx context.Context, name string) error {
	now := r.now()
	_, err := r.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.HDel(ctx, r.wantedKey(), name)
		tx.ZAdd(ctx, r.retiredKey(), redis.Z{Score: float64(now.UnixMilli()), Member: name})
		tx.ZRemRangeByScore(ctx, r.retiredKey(), "-inf", strconv.FormatInt(now.Add(-retiredFor).UnixMilli(), 10))
		return nil
	})
	return redisError("unwant adapter "+name, err)
}

// Wanted is every adapter that every engine must serve, by run and version.
func (r *Registry) Wanted(ctx context.Context) ([]Adapter, error) {
	values, err := r.rdb.HGetAll(ctx, r.wantedKey()).Result()
	if err != nil {
		return nil, fmt.Errorf("read wanted adapters: %w", err)
	}
	adapters := make([]Adapter, 0, len(values))
	for name, text := range values {
		a, err := decode[Adapter]("adapter "+name, text)
		if err != nil {
			return nil, err
		}
		adapters = append(adapters, a)
	}
	slices.SortFunc(adapters, func(a, b Adapter) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Version, b.Version))
	})
	return adapters, nil
}

// Newest is a run's newest version that every engine must serve; 0: there is none.
func (r *Registry) Newest(ctx context.Context, run rollout.RunName) (rollout.PolicyVersion, error) {
	adapters, err := r.Wanted(ctx)
	newest := rollout.PolicyVersion(0)
	for _, a := range adapters {
		if a.Run == run {
			newest = max(newest, a.Version)
		}
	}
	return newest, err
}

// Retired names the adapters that Unwant named lately: only those may be unloaded, so that what
// an operator loaded by hand stays.
func (r *Registry) Retired(ctx context.Context) ([]string, error) {
	names, err := r.rdb.ZRange(ctx, r.retiredKey(), 0, -1).Result()
	return names, redisError("read retired adapters", err)
}
