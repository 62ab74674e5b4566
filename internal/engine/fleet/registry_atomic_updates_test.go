package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// scarceRegistry is a registry whose process has two connections to Redis, and waits for one no longer than a moment.
func scarceRegistry(t *testing.T) *fleet.Registry {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), PoolSize: 2, PoolTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	return fleet.NewRegistry(rdb, "test", time.Now)
}

// TestChangesOfTheFleetNeedOneConnectionEach: any number of them at once ends, on however few connections.
func TestChangesOfTheFleetNeedOneConnectionEach(t *testing.T) {
	t.Parallel()
	r := scarceRegistry(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := func(n int, call func(i int) error) {
		t.Helper()
		var g errgroup.Group
		for i := range n {
			g.Go(func() error { return call(i) })
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	id := func(i int) rollout.EngineID { return rollout.EngineID(fmt.Sprintf("e%d", i)) }
	all(100, func(i int) error {
		_, err := r.Add(ctx, enginestate.Engine{ID: id(i % 50), URL: fmt.Sprintf("http://engine-%d:1", i%50)})
		return err
	})
	if engines, err := r.List(ctx); err != nil || len(engines) != 50 {
		t.Fatalf("%d engines, %v; want 50", len(engines), err)
	}
	all(30, func(i int) error { return r.Drain(ctx, "e0", false) })
	if err := r.Observe(ctx, "e1", fleet.Observation{State: enginestate.EngineReady}); err != nil {
		t.Fatal(err)
	}
	all(30, func(i int) error { return r.Loaded(ctx, "e1", fmt.Sprintf("run-v%d", i)) })
	if e, err := r.Get(ctx, "e1"); err != nil || len(e.Adapters) != 30 {
		t.Errorf("engine e1 serves %d adapters, %v; want all 30 that were noted at once", len(e.Adapters), err)
	}
}

// TestAFullFleetRefusesMore: with what there is, the bound, and the key that raises it. What is a member already
// stays one, and what a list of engines names is the operator's own choice.
func TestAFullFleetRefusesMore(t *testing.T) {
	t.Parallel()
	r := scarceRegistry(t)
	r.LimitEngines(2)
	for _, id := range []rollout.EngineID{"a", "b"} {
		if _, err := r.Add(t.Context(), enginestate.Engine{ID: id, URL: "http://" + string(id) + ":1"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.Add(t.Context(), enginestate.Engine{ID: "c", URL: "http://c:1"})
	if !rollout.Refused(err, rollout.QuotaExceeded) {
		t.Fatalf("a third engine of two: %v", err)
	}
	if _, err := r.Add(t.Context(), enginestate.Engine{ID: "a", URL: "http://a:1", MaxInFlight: 7}); err != nil {
		t.Errorf("a member again: %v", err)
	}
	if _, err := r.Add(t.Context(), enginestate.Engine{ID: "d", URL: "http://a:1"}); !rollout.Refused(err,
		rollout.Conflict) {
		t.Errorf("a second name for one address: %v; want a conflict, full or not", err)
	}
}
