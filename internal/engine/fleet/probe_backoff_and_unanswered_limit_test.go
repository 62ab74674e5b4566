package fleet_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// unavailable is an engine at which nobody answers, and which counts how often it was asked.
type unavailable struct {
	fleet.Client
	asked *atomic.Int64
	back  *atomic.Bool
}

func (a unavailable) Health(context.Context) error {
	a.asked.Add(1)
	if a.back.Load() {
		return rollout.Fail(rollout.Permanent, rollout.CodeUnauthorized, fmt.Errorf("here, but not for you"))
	}
	return rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, fmt.Errorf("no answer"))
}

// TestThousandsOfLostEngines: they are looked at 200 times a second altogether at most, and one that leaves does so
// at once.
func TestThousandsOfLostEngines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engines := 1000
		if testing.Short() {
			engines = 100
		}
		r := newRegistry(t)
		for i := range engines {
			e := enginestate.Engine{ID: rollout.EngineID(fmt.Sprintf("e%d", i)), URL: fmt.Sprintf("http://h%d:8000", i)}
			if _, err := r.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		var asked atomic.Int64
		var back atomic.Bool
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		client := func(enginestate.Engine) fleet.Client { return unavailable{asked: &asked, back: &back} }
		keeper := fleet.NewKeeper(fleet.KeeperConfig{Registry: r, Client: client})
		go func() { ended <- keeper.Keep(ctx, func() {}) }()
		time.Sleep(10 * time.Second)
		before := asked.Load()
		time.Sleep(20 * time.Second)
		if n := asked.Load() - before; n > int64(20*200+engines/10) {
			t.Errorf("%d looks in 20 s at %d lost engines", n, engines)
		}
		if err := r.Remove(t.Context(), "e7", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, err := r.Get(t.Context(), "e7"); !rollout.Refused(err, rollout.NoSuchEngine) {
			t.Errorf("a lost engine that was removed is still there: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWatchReadsWhatChanged: what a watch shows is what the registry has, whoever changed it.
func TestWatchReadsWhatChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(t)
		w := r.Watch()
		step := func(what string, change func() error, wantChanged bool) {
			t.Helper()
			if err := change(); err != nil {
				t.Fatal(what, err)
			}
			got, changed, err := w.Engines(t.Context())
			if err != nil || changed != wantChanged {
				t.Errorf("%s: changed %v, %v", what, changed, err)
			}
			want, err := r.List(t.Context())
			if fmt.Sprint(got) != fmt.Sprint(want) || err != nil {
				t.Errorf("%s: watched %v, want %v, %v", what, got, want, err)
			}
		}
		add := func(id rollout.EngineID) func() error {
			return func() error {
				_, err := r.Add(t.Context(), enginestate.Engine{ID: id, URL: "http://" + string(id)})
				return err
			}
		}
		seen := func(id rollout.EngineID, state enginestate.EngineState) func() error {
			return func() error { return r.Observe(t.Context(), id, fleet.Observation{State: state}) }
		}
		nothing := func() error { return nil }
		step("an empty fleet", nothing, true)
		step("nothing", nothing, false)
		step("a joins", add("a"), true)
		step("b joins", add("b"), true)
		step("a is ready", seen("a", enginestate.EngineReady), true)
		step("an adapter is loaded", func() error { return r.Loaded(t.Context(), "a", "run-v1") }, true)
		step("nothing again", nothing, false)
		step("b drains", func() error { return r.Drain(t.Context(), "b", false) }, true)
		step("one that is no member is seen", seen("c", enginestate.EngineReady), false)
		time.Sleep(2 * time.Second)
		step("nothing, later", nothing, false)
	})
}

// BenchmarkLostFleet is what a worker reads four times a second of a fleet of 3,000 lost engines: all of it, and
// what has changed.
func BenchmarkLostFleet(b *testing.B) {
	r := fleet.NewRegistry(newRedis(b), "test", time.Now)
	for i := range 3000 {
		id := rollout.EngineID(fmt.Sprintf("e%d", i))
		if _, err := r.Add(b.Context(), enginestate.Engine{ID: id, URL: fmt.Sprintf("http://h%d:8000", i)}); err != nil {
			b.Fatal(err)
		}
		lost := fleet.Observation{State: enginestate.EngineLost, Reason: "not answering"}
		if err := r.Observe(b.Context(), id, lost); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			if _, err := r.List(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("changes", func(b *testing.B) {
		w := r.Watch()
		for b.Loop() {
			if _, _, err := w.Engines(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
