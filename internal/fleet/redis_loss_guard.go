package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
)

// RedisLossGuard brings the fleet back to a Redis that has lost everything: it remembers the engines that operators
// have added, and a mark by which it knows its Redis. When the mark is gone, or another, the engines are added again.
// Engines that come from a source or from the configuration come back from there.
type RedisLossGuard struct {
	rdb      redis.UniversalClient
	key      string // of the mark
	registry operatorMembers
	own      string // the mark that this process sets where there is none
	log      *slog.Logger

	mark  string // as seen last
	known []Member
}

// operatorMembers is what a RedisLossGuard needs of the fleet's registry.
type operatorMembers interface {
	Members(ctx context.Context) ([]Member, error)
	Add(ctx context.Context, e rollout.Engine) (rollout.Engine, error)
	Drain(ctx context.Context, id rollout.EngineID, now bool) error
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
	if g.mark != "" && mark != g.mark {
		g.log.Warn("redis has lost everything; bringing back the fleet", "engines", len(g.known))
		if err := g.restore(ctx); err != nil {
			return err
		}
	} else {
		g.known = known
	}
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

func (g *RedisLossGuard) restore(ctx context.Context) error {
	for _, m := range g.known {
		if m.Source != "" {
			continue
		}
		_, err := g.registry.Add(ctx, rollout.Engine{ID: m.ID, URL: m.URL, MaxInFlight: m.MaxInFlight})
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
