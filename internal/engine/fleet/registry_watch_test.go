package fleet_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// reads counts what is read of a fleet: everything, or some engines of it.
type reads struct{ whole, some int }

func (r *reads) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (r *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		switch cmds[0].Name() {
		case "hgetall":
			r.whole++
		case "hmget":
			r.some++
		}
		return next(ctx, cmds)
	}
}

// A worker looks four times a second, and reads what has changed: nothing, where nothing has.
func TestWatchReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	now := time.Unix(1000, 0)
	r := fleet.NewRegistry(rdb, "test", func() time.Time { return now })
	add := func(id rollout.EngineID) {
		t.Helper()
		if _, err := r.Add(ctx, enginestate.Engine{ID: id, URL: "http://" + string(id) + ":1"}); err != nil {
			t.Fatal(err)
		}
	}
	add("a")
	add("b")
	w, count := r.Watch(), &reads{}
	rdb.AddHook(count)
	look := func(what string, engines int, want reads) {
		t.Helper()
		*count = reads{}
		for range 100 {
			now = now.Add(250 * time.Millisecond)
			if all, _, err := w.Engines(ctx); err != nil || len(all) != engines {
				t.Fatalf("%s: %d engines, %v; want %d", what, len(all), err, engines)
			}
		}
		if *count != want {
			t.Errorf("%s: read %+v, want %+v", what, *count, want)
		}
	}
	look("the first time", 2, reads{whole: 1})
	look("nothing has changed", 2, reads{})
	if err := r.Observe(ctx, "a", fleet.Observation{State: enginestate.EngineReady}); err != nil {
		t.Fatal(err)
	}
	look("one engine has changed", 2, reads{some: 1})
	add("c")
	look("one has joined", 3, reads{some: 1})

	server.SetError("LOADING")
	if _, _, err := w.Engines(ctx); err == nil {
		t.Fatal("read a Redis that does not answer")
	}
	server.SetError("")
	look("Redis is back", 3, reads{whole: 1})
	server.FlushAll()
	look("Redis is back without anything", 0, reads{whole: 1})
	add("d")
	look("and an engine has joined", 1, reads{some: 1})
}
