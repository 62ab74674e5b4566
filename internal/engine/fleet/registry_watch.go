package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Watch is one reader's copy of the fleet. Every change of the fleet has a number, and only values changed since the
// last reading are read again: several looks a second at a fleet of thousands of mostly idle engines cost next to
// nothing. After an error, and if the numbers have gone back, Redis may have forgotten changes: then everything is read
// again. It is for one goroutine.
type Watch struct {
	r       *Registry
	members map[rollout.EngineID]Member
	engines map[rollout.EngineID]enginestate.Engine
	sorted  []enginestate.Engine // of engines; nil: to be made
	seen    float64              // number of the latest change read
	left    float64              // departures at that time
	broken  bool                 // the latest read failed
}

// departures is the member of the changes that counts the engines that left.
const departures = "-"

// Watch begins to watch the fleet. Nothing is read yet.
func (r *Registry) Watch() *Watch { return &Watch{r: r} }

// Engines is every engine, by id, and whether any may have changed since the last call. The caller must not change it.
func (w *Watch) Engines(ctx context.Context) (engines []enginestate.Engine, changed bool, err error) {
	if err := w.read(ctx); err != nil {
		w.broken = true
		return nil, false, err
	}
	w.broken = false
	changed = w.sorted == nil
	if changed {
		w.sorted = slices.AppendSeq(make([]enginestate.Engine, 0, len(w.engines)), maps.Values(w.engines))
		slices.SortFunc(w.sorted, func(a, b enginestate.Engine) int { return cmp.Compare(a.ID, b.ID) })
	}
	return w.sorted, changed, nil
}

// Members is every engine as wanted, by id. The caller must not change it.
func (w *Watch) Members(ctx context.Context) (map[rollout.EngineID]Member, error) {
	_, _, err := w.Engines(ctx)
	return w.members, err
}

// read brings the watch up to date.
func (w *Watch) read(ctx context.Context) error {
	var newest, left *redis.FloatCmd
	var changed *redis.ZSliceCmd
	_, err := w.r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		newest = p.ZScore(ctx, w.r.changesKey(), "")
		left = p.ZScore(ctx, w.r.changesKey(), departures)
		changed = p.ZRangeByScoreWithScores(ctx, w.r.changesKey(), &redis.ZRangeBy{
			Min: "(" + strconv.FormatFloat(w.seen, 'f', -1, 64), Max: "+inf",
		})
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // no engine has left yet
		return redisError("read changes of the fleet", err)
	}
	var ids []string
	last := w.seen
	for _, z := range changed.Val() {
		id, _ := z.Member.(string)
		if id == departures {
			continue
		}
		last = max(last, z.Score)
		if id != "" {
			ids = append(ids, id)
		}
	}
	whole := w.engines == nil || w.broken || left.Val() != w.left || newest.Val() < w.seen
	var read error
	switch {
	case whole:
		read = w.readAll(ctx)
	case len(ids) > 0:
		read = w.readSome(ctx, ids)
	}
	if read != nil {
		return read
	}
	// Taken before the values were read: later changes are read again.
	w.seen, w.left = last, left.Val()
	if whole {
		w.seen = newest.Val()
	}
	return nil
}

func (w *Watch) readAll(ctx context.Context) error {
	var members, observed *redis.MapStringStringCmd
	_, err := w.r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		members = p.HGetAll(ctx, w.r.membersKey())
		observed = p.HGetAll(ctx, w.r.observedKey())
		return nil
	})
	if err != nil {
		return redisError("list engines", err)
	}
	fresh := Watch{members: map[rollout.EngineID]Member{}, engines: map[rollout.EngineID]enginestate.Engine{}}
	for id, text := range members.Val() {
		if err := fresh.set(id, text, observed.Val()[id]); err != nil {
			return err
		}
	}
	w.members, w.engines, w.sorted = fresh.members, fresh.engines, nil
	return nil
}

func (w *Watch) readSome(ctx context.Context, ids []string) error {
	var members, observed *redis.SliceCmd
	_, err := w.r.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		members = p.HMGet(ctx, w.r.membersKey(), ids...)
		observed = p.HMGet(ctx, w.r.observedKey(), ids...)
		return nil
	})
	if err != nil {
		return redisError("list engines", err)
	}
	w.sorted = nil
	for i, id := range ids {
		member, _ := members.Val()[i].(string)
		seen, _ := observed.Val()[i].(string)
		if member == "" {
			delete(w.members, rollout.EngineID(id))
			delete(w.engines, rollout.EngineID(id))
			continue
		}
		if err := w.set(id, member, seen); err != nil {
			return err
		}
	}
	return nil
}

// set takes in one engine's values.
func (w *Watch) set(id, member, observed string) error {
	m, err := decode[Member]("member "+id, member)
	if err != nil {
		return err
	}
	o, err := decodeObservation(id, observed)
	if err != nil {
		return err
	}
	w.members[m.ID], w.engines[m.ID] = m, m.Engine(o)
	return nil
}
