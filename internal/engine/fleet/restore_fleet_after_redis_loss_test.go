package fleet

import (
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func TestFleetComesBackToAnEmptiedRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	registry := NewRegistry(rdb, "test", time.Now)
	guard := func(own string) *RedisLossGuard {
		return NewRedisLossGuard(rdb, "test", own, registry, slog.New(slog.DiscardHandler))
	}
	ctx := t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(id rollout.EngineID, url string) {
		t.Helper()
		_, err := registry.Add(ctx, enginestate.Engine{ID: id, URL: url, MaxInFlight: 7})
		ok(err)
	}
	add("a", "http://10.0.0.1:8000")
	add("b", "http://10.0.0.2:8000")
	ok(registry.Drain(ctx, "b", false))

	first, second := guard("first"), guard("second")
	ok(first.look(ctx))
	ok(second.look(ctx))

	// What an operator removes stays away.
	add("c", "http://10.0.0.3:8000")
	ok(first.look(ctx))
	ok(rdb.HDel(ctx, "test:{fleet}:members", "c").Err())
	ok(first.look(ctx))
	ok(second.look(ctx))

	server.FlushAll()
	ok(second.look(ctx))
	ok(first.look(ctx)) // sees the other's mark, and finds nothing to add
	got, err := registry.Members(ctx)
	ok(err)
	if len(got) != 2 || got[0].ID != "a" || got[0].MaxInFlight != 7 || got[0].Drain || got[1].ID != "b" || !got[1].Drain {
		t.Errorf("came back as %+v", got)
	}
	ok(rdb.HDel(ctx, "test:{fleet}:members", "a").Err())
	ok(first.look(ctx))
	ok(second.look(ctx))
	if got, err = registry.Members(ctx); err != nil || len(got) != 1 {
		t.Errorf("%+v %v: a guard that has brought the fleet back does so again", got, err)
	}
}
