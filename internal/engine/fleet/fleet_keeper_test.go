package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func adapter(v rollout.PolicyVersion) fleet.Adapter {
	return fleet.Adapter{Run: "demo", Version: v, Name: v.Adapter("demo"), Path: fmt.Sprintf("/adapters/demo-v%d", v)}
}

func TestKeeperLoadsWantedAdaptersBeforeReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
			t.Fatal(err)
		}
		e := r.add("a")
		e.set(func(e *fakeEngine) { e.loadTime = 3 * time.Second })
		r.within(5*time.Second, "a", "loading", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineLoading && strings.Contains(e.Reason, "demo-v1")
		})
		r.within(10*time.Second, "a", "ready", in(enginestate.EngineReady))
		got, err := r.registry.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Adapters, []string{"demo-v1"}) || !slices.Equal(got.Models, []string{"base"}) ||
			got.Version != "0.29.0" {
			t.Errorf("got %+v", got)
		}
		if n := e.canaryCount(); n != 1 {
			t.Errorf("%d canaries, want 1 before the engine is ready", n)
		}
		want := []enginestate.EngineState{enginestate.EngineLoading, enginestate.EngineReady}
		if states := r.events.states("a"); !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

func TestKeeperFindsLostEngines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		fail    func(*fakeEngine)
		restore func(*fakeEngine)
		within  time.Duration
	}{
		{"refused", func(e *fakeEngine) { e.fault = errRefused }, func(e *fakeEngine) { e.fault = nil }, 4 * time.Second},
		{"hung", func(e *fakeEngine) { e.hung = true }, func(e *fakeEngine) { e.hung = false }, 18 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "a", "b")
				r.within(3*time.Second, "a", "ready", in(enginestate.EngineReady))
				e := r.engines["http://a:8000"]
				e.set(tt.fail)
				took := r.within(tt.within, "a", "lost", in(enginestate.EngineLost))
				t.Logf("found %s after %v", tt.name, took)
				if b, _ := r.registry.Get(t.Context(), "b"); b.State != enginestate.EngineReady {
					t.Errorf("the other engine is %s", b.State)
				}
				e.set(tt.restore)
				r.within(8*time.Second, "a", "ready again", in(enginestate.EngineReady))
			})
		})
	}
}

func TestKeeperReloadsARestartedEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
			t.Fatal(err)
		}
		e := r.engines["http://a:8000"]
		r.within(5*time.Second, "a", "ready with the adapter", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && slices.Contains(e.Adapters, "demo-v1")
		})
		e.set(func(e *fakeEngine) { clear(e.adapters); e.loadTime = 2 * time.Second })
		r.within(3*time.Second, "a", "loading", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineLoading && strings.Contains(e.Reason, "restarted")
		})
		r.within(5*time.Second, "a", "ready", in(enginestate.EngineReady))
		if !e.serves("demo-v1") {
			t.Error("ready without its adapter")
		}
	})
}

func TestKeeperStaysReadyWhileANewVersionLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		r.within(3*time.Second, "a", "ready", in(enginestate.EngineReady))
		e := r.engines["http://a:8000"]
		e.set(func(e *fakeEngine) { e.loadTime = 2 * time.Second })
		if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
			t.Fatal(err)
		}
		r.within(5*time.Second, "a", "serving v1", func(e enginestate.Engine) bool {
			if e.State != enginestate.EngineReady {
				t.Errorf("state %s (%s) while loading", e.State, e.Reason)
			}
			return slices.Contains(e.Adapters, "demo-v1")
		})
		if err := r.registry.Unwant(t.Context(), "demo-v1"); err != nil {
			t.Fatal(err)
		}
		r.within(3*time.Second, "a", "without v1", func(enginestate.Engine) bool { return !e.serves("demo-v1") })
	})
}

func TestKeeperDrainsAndUnloadsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
			t.Fatal(err)
		}
		e := r.engines["http://a:8000"]
		e.set(func(e *fakeEngine) { e.adapters["by-hand"] = "/elsewhere"; e.sample.Running = 1 })
		r.within(5*time.Second, "a", "ready with the adapter", func(engine enginestate.Engine) bool {
			return engine.State == enginestate.EngineReady && e.serves("demo-v1")
		})
		if err := r.registry.Drain(t.Context(), "a", false); err != nil {
			t.Fatal(err)
		}
		r.within(0, "a", "draining at once", in(enginestate.EngineDraining))
		time.Sleep(5 * time.Second)
		if !e.serves("demo-v1") {
			t.Error("unloaded while a request was running")
		}
		e.set(func(e *fakeEngine) { e.sample.Running = 0 })
		r.within(3*time.Second, "a", "drained", func(enginestate.Engine) bool { return !e.serves("demo-v1") })
		if !e.serves("by-hand") {
			t.Error("unloaded an adapter that the fleet never loaded")
		}
	})
}

func TestKeeperBacksOffFromABadAdapter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		e.set(func(e *fakeEngine) {
			e.bad["demo-v1"] = rollout.Fail(rollout.Permanent, rollout.CodeAdapterMissing, errors.New("No adapter found"))
		})
		if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(95 * time.Second)
		e.set(func(e *fakeEngine) {
			if e.loads < 2 || e.loads > 5 {
				t.Errorf("%d loads in 95 s of a permanent failure", e.loads)
			}
			e.bad = nil
		})
		got, _ := r.registry.Get(t.Context(), "a")
		if !strings.Contains(got.Reason, "adapters.path_prefix") {
			t.Errorf("reason %q names no remedy", got.Reason)
		}
		r.within(35*time.Second, "a", "serving v1",
			func(e enginestate.Engine) bool { return slices.Contains(e.Adapters, "demo-v1") })
	})
}

// TestKeeperKeepsWhatAPublicationLoaded is a publication's time between loading an adapter and wanting it:
// dispatchers must be able to send requests for it the moment it is wanted.
func TestKeeperKeepsWhatAPublicationLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		r.within(3*time.Second, "a", "ready", in(enginestate.EngineReady))
		e.set(func(e *fakeEngine) { e.answerTime = 300 * time.Millisecond }) // most of the time the Keeper is looking
		if _, err := (fleet.Loader{}).Load(t.Context(), e, "a", adapter(1)); err != nil {
			t.Fatal(err)
		}
		if err := r.registry.Loaded(t.Context(), "a", "demo-v1"); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			r.within(0, "a", "known to serve v1", func(e enginestate.Engine) bool {
				return slices.Contains(e.Adapters,
					"demo-v1")
			})
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestKeeperMeasuresRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a", "b")
		start := time.Now()
		for range 40 {
			time.Sleep(500 * time.Millisecond)
			r.engines["http://a:8000"].set(func(e *fakeEngine) {
				e.sample.Running = 4
				e.sample.GenerationTokens += 50
				e.sample.PromptTokens += 1000
			})
		}
		a, _ := r.registry.Get(t.Context(), "a")
		if a.Load.OutputTPS < 95 || a.Load.OutputTPS > 105 || a.Load.InputTPS < 1900 || a.Load.InputTPS > 2100 {
			t.Errorf("load %+v, want about 100 and 2000 tokens/s", a.Load)
		}
		view, err := r.sampler.View(t.Context(), "", start.Add(5*time.Second), start.Add(15*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if view.WindowSec < 9.9 || view.Engines != 2 || view.BusyShare != 0.5 || view.SlotShare != 0.25 ||
			view.InFlight != 2 {
			t.Errorf("view %+v", view)
		}
		if view.OutputTPS < 95 || view.OutputTPS > 105 {
			t.Errorf("view's output TPS %v, want about 100", view.OutputTPS)
		}
		samples := 0
		for _, e := range r.events.all() {
			if _, ok := e.Body.(telemetry.EngineSample); ok {
				samples++
			}
		}
		if samples < 30 {
			t.Errorf("%d engine samples in 20 s of two engines", samples)
		}
	})
}
