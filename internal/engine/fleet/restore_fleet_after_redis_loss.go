package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// RedisLossGuard brings the fleet back to a Redis that has lost it: it remembers the engines that operators have added
// and removed, a mark by which it knows its Redis, and the history of that. When the mark is gone, or another, the
// engines are added again; when the history is another, those that are missing are, and those that were removed go.
// Engines that come from a source or from the configuration come back from there.
type RedisLossGuard struct {
	rdb      redis.UniversalClient
	key      string // of the mark
	registry operatorMembers
	own      string // the mark that this process sets if Redis has none
	log      *slog.Logger

	mark    string // as seen last
	history string
	known   []Member
	removed map[rollout.EngineID]Member // by an operator, since this process began
}

// operatorMembers is what a RedisLossGuard needs of the fleet's registry.
type operatorMembers interface {
	Members(ctx context.Context) ([]Member, error)
	Add(ctx context.Context, e enginestate.Engine) (enginestate.Engine, error)
	Drain(ctx context.Context, id rollout.EngineID, now bool) error
	Remove(ctx context.Context, id rollout.EngineID, now bool) error
	History(ctx context.Context) (string, error)
}

// NewRedisLossGuard guards the fleet that a registry keeps under prefix. own names this process among those that guard
// it.
func NewRedisLossGuard(rdb redis.UniversalClient, prefix, own string, r *Registry, log *slog.Logger) *RedisLossGuard {
	return &RedisLossGuard{rdb: rdb, key: prefix + ":mark", registry: r, own: own, log: log}
}

// guardEvery bounds how long an emptied Redis goes unnoticed.
const guardEvery = time.Second

// Run guards the fleet until ctx is done.
func (g *RedisLossGuard) Run(ctx context.Context) error {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	for {
		if err := g.look(ctx); err != nil && ctx.Err() == nil {
			g.log.Warn("look after the fleet", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look remembers the fleet, or brings it back. The mark is read after the fleet, so that a fleet read from an
// emptied Redis is never remembered.
func (g *RedisLossGuard) look(ctx context.Context) error {
	known, err := g.registry.Members(ctx)
	if err != nil {
		return err
	}
	mark, err := g.rdb.Get(ctx, g.key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("read the mark: %w", err)
	}
	history, err := g.registry.History(ctx)
	if err != nil {
		return err
	}
	switch {
	case g.mark != "" && mark != g.mark:
		g.log.Warn("redis has lost everything; bringing back the fleet", "engines", len(g.known))
		err = g.restore(ctx, g.known)
	case g.history != "" && history != g.history:
		err = g.undoRollback(ctx)
	default:
		g.remember(known)
	}
	if err != nil {
		return err
	}
	g.history = history
	if mark == "" {
		if err := g.rdb.SetNX(ctx, g.key, g.own, 0).Err(); err != nil {
			return fmt.Errorf("set the mark: %w", err)
		}
		mark, err = g.rdb.Get(ctx, g.key).Result()
		if err != nil {
			return fmt.Errorf("read the mark: %w", err)
		}
	}
	g.mark = mark
	return nil
}

// removedAtMost bounds how many engines are remembered that have left.
const removedAtMost = 4096

// remember takes in the fleet as it is, and which engines have left it since.
func (g *RedisLossGuard) remember(now []Member) {
	for _, m := range g.known {
		if m.Leave && !among(now, m) {
			if g.removed == nil || len(g.removed) >= removedAtMost {
				g.removed = map[rollout.EngineID]Member{}
			}
			g.removed[m.ID] = m
		}
	}
	for _, m := range now {
		if !m.Leave {
			delete(g.removed, m.ID) // it was added again
		}
	}
	g.known = now
}

// among reports whether an engine is in a fleet at its address.
func among(fleet []Member, m Member) bool {
	return slices.ContainsFunc(fleet, func(other Member) bool { return other.ID == m.ID && other.URL == m.URL })
}

// undoRollback adds the engines that a Redis has forgotten which came back older, and removes those that it had
// forgotten to be removed. Most restarts of Redis have lost nothing.
func (g *RedisLossGuard) undoRollback(ctx context.Context) error {
	found, err := g.registry.Members(ctx)
	if err != nil {
		return err
	}
	var missing []Member
	for _, m := range g.known {
		if !m.Leave && !among(found, m) {
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 {
		g.log.Warn("redis has forgotten engines; adding them again", "engines", len(missing))
	}
	if err := g.restore(ctx, missing); err != nil {
		return err
	}
	for _, m := range found {
		gone, left := g.removed[m.ID]
		if !left || m.Leave || gone.URL != m.URL || !gone.AddedAt.Equal(m.AddedAt) {
			continue
		}
		g.log.Warn("redis has forgotten that an engine was removed; removing it again", "engine", m.ID)
		if err := g.registry.Remove(ctx, m.ID, gone.Now); err != nil && !rollout.Refused(err, rollout.NoSuchEngine) {
			return err
		}
	}
	return nil
}

// restore adds engines that operators have added.
func (g *RedisLossGuard) restore(ctx context.Context, members []Member) error {
	for _, m := range members {
		if m.Source != "" {
			continue
		}
		_, err := g.registry.Add(ctx, enginestate.Engine{ID: m.ID, URL: m.URL, MaxInFlight: m.MaxInFlight})
		if rollout.Refused(err, rollout.Conflict) {
			continue // an operator was faster
		}
		if err != nil {
			return err
		}
		if m.Drain {
			if err := g.registry.Drain(ctx, m.ID, m.Now); err != nil {
				return err
			}
		}
	}
	return nil
}
