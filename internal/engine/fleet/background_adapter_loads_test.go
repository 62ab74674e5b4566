package fleet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// ofRun is version 1 of another run.
func ofRun(run rollout.RunName) fleet.Adapter {
	return fleet.Adapter{Run: run, Version: 1, Name: string(run) + "-v1", Path: "/adapters/" + string(run)}
}

func (r *rig) want(adapters ...fleet.Adapter) {
	r.t.Helper()
	for _, a := range adapters {
		if err := r.registry.Want(r.t.Context(), a); err != nil {
			r.t.Fatal(err)
		}
	}
}

func serving(name string) func(enginestate.Engine) bool {
	return func(e enginestate.Engine) bool {
		return e.State == enginestate.EngineReady && slices.Contains(e.Adapters, name)
	}
}

// An adapter that cannot be loaded, or whose load hangs, is its run's affair: an engine that comes back is ready for
// everything else, says what it lacks, and has it when it can be had.
func TestOneRunsAdapterDoesNotHoldAnEngineUp(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, "a")
			e := r.engines["http://a:8000"]
			r.want(ofRun("gone"), ofRun("well"))
			r.within(5*time.Second, "a", "serving both", func(e enginestate.Engine) bool {
				return serving("gone-v1")(e) && serving("well-v1")(e)
			})
			e.set(func(e *fakeEngine) { // restarted, and the directory of one is deleted, or on a disk that hangs
				e.adapters = map[string]string{}
				if hangs {
					e.hangs = map[string]bool{"gone-v1": true}
				} else {
					e.bad["gone-v1"] = rollout.Fail(rollout.Permanent, rollout.CodeAdapterMissing, errors.New("No adapter found"))
				}
			})
			r.within(25*time.Second, "a", "ready for the other run", func(e enginestate.Engine) bool {
				return serving("well-v1")(e) && !slices.Contains(e.Adapters, "gone-v1")
			})
			got, _ := r.registry.Get(t.Context(), "a")
			if !strings.Contains(got.Reason, "lacks gone-v1") || got.Troubles["gone-v1"] == "" {
				t.Errorf("reason %q, troubles %v", got.Reason, got.Troubles)
			}
			e.set(func(e *fakeEngine) { e.bad, e.hangs = nil, nil })
			r.within(4*time.Minute, "a", "serving both again", func(e enginestate.Engine) bool {
				return serving("gone-v1")(e) && e.Reason == ""
			})
		})
	}
}

// A run with more adapters than an engine can load in time is its own affair, too: an engine that comes back loads
// the runs' adapters in turn, and is soon ready for what it has.
func TestOneRunsManyAdaptersDoNotHoldAnEngineUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		hog := func(i int) fleet.Adapter {
			name := fmt.Sprintf("hog:p%d", i)
			return fleet.Adapter{Run: "hog", Name: name, Path: "/adapters/" + name}
		}
		adapters := 400
		if testing.Short() {
			adapters = 80
		}
		for i := range adapters {
			r.want(hog(i))
		}
		r.want(ofRun("well"))
		e.set(func(e *fakeEngine) { e.adapters, e.loadTime = map[string]string{}, 2*time.Second })
		r.within(5*time.Second, "a", "loading, with a short reason", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineLoading && strings.HasSuffix(e.Reason, " more") && len(e.Reason) < 100
		})
		r.within(30*time.Second, "a", "ready for the other run", serving("well-v1"))
		loaded := 0
		e.set(func(e *fakeEngine) { loaded = len(e.adapters) })
		if loaded > adapters {
			t.Error("all is loaded already: the test shows nothing")
		}
		r.within(6*time.Minute, "a", "serving everything", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && len(e.Adapters) == adapters+1
		})
	})
}

// While loads hang, adapters of other runs are loaded all the same, and the engine is looked at.
func TestHangingLoadsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		r.within(5*time.Second, "a", "ready", in(enginestate.EngineReady))
		e.set(func(e *fakeEngine) {
			e.hangs = map[string]bool{}
			for _, run := range []rollout.RunName{"h1", "h2", "h3"} {
				e.hangs[ofRun(run).Name] = true
			}
		})
		r.want(ofRun("h1"), ofRun("h2"), ofRun("h3"))
		time.Sleep(5 * time.Second)
		r.want(ofRun("well"))
		r.within(5*time.Second, "a", "serving what can be served", serving("well-v1"))
		e.set(func(e *fakeEngine) { e.fault = errRefused })
		r.within(8*time.Second, "a", "lost", in(enginestate.EngineLost))
	})
}

// An engine that lists the name without having been asked by this deployment has somebody else's weights: it gets no
// requests for it.
func TestForeignWeightsUnderANameAreAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		mine := adapter(1)
		mine.Digest = "sha256:01"
		e.set(func(e *fakeEngine) { e.adapters[mine.Name] = mine.Path })
		loader := fleet.Loader{Records: r.registry}
		if _, err := loader.Load(t.Context(), e, "a", mine); rollout.CodeOf(err) != rollout.CodeAdapterConflict {
			t.Errorf("load: %v, want a conflict", err)
		}
		r.want(mine)
		r.within(10*time.Second, "a", "ready without it", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && !slices.Contains(e.Adapters, mine.Name) &&
				strings.Contains(e.Reason, "not by this deployment")
		})
		e.set(func(e *fakeEngine) { delete(e.adapters, mine.Name) }) // it is restarted
		r.within(40*time.Second, "a", "serving ours", serving(mine.Name))
		time.Sleep(5 * time.Second)
		r.within(0, "a", "serving ours still", serving(mine.Name))
		other := mine
		other.Digest = "sha256:02" // as after a restart of the run under the same name
		if _, err := loader.Load(t.Context(), e, "a", other); rollout.CodeOf(err) != rollout.CodeAdapterConflict {
			t.Errorf("load of other weights: %v, want a conflict", err)
		}
		if err := r.registry.Unwant(t.Context(), mine.Name); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if held, err := r.registry.LoadRecords(t.Context(), "a"); err != nil || len(held) != 0 {
			t.Errorf("held %v, %v: what was unloaded is forgotten", held, err)
		}
	})
}

// Files that change under an adapter in use are noticed: who has it goes on, nobody loads it, and it is told once.
func TestFilesThatChangeAreNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := adapterAt(t, `{"r":8,"target_modules":["q_proj"]}`)
		a.Prefix = filepath.Dir(a.Path)
		found, err := adapterfiles.NewReader().Inspect(t.Context(), a.Prefix, a.Path, 8)
		if err != nil {
			t.Fatal(err)
		}
		a.Digest = found.Digest
		r := newRig(t, "a")
		e := r.engines["http://a:8000"]
		r.want(a)
		r.within(5*time.Second, "a", "serving", serving(a.Name))
		weights := filepath.Join(a.Path, "adapter_model.safetensors")
		old, err := os.ReadFile(weights)
		if err != nil {
			t.Fatal(err)
		}
		write := func(b []byte) {
			if err := os.WriteFile(weights, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(append(old, 'x'))
		r.within(12*time.Second, "a", "serving, with the reason", func(e enginestate.Engine) bool {
			return serving(a.Name)(e) && strings.Contains(e.Reason, "have changed since it was published")
		})
		e.set(func(e *fakeEngine) { e.adapters = map[string]string{}; e.loads = 0 })
		r.within(10*time.Second, "a", "ready without it", func(e enginestate.Engine) bool {
			return e.State == enginestate.EngineReady && !slices.Contains(e.Adapters, a.Name)
		})
		time.Sleep(time.Minute)
		e.set(func(e *fakeEngine) {
			if e.loads != 0 {
				t.Errorf("%d loads of files that have changed", e.loads)
			}
		})
		write(old)
		r.within(time.Minute, "a", "serving again", func(e enginestate.Engine) bool {
			return serving(a.Name)(e) && e.Reason == ""
		})
		var told []bool
		for _, event := range r.events.all() {
			if body, ok := event.Body.(telemetry.AdapterChanged); ok {
				told = append(told, body.Reason != "")
			}
		}
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("told %v, want once that it changed and once that it is back", told)
		}
	})
}
