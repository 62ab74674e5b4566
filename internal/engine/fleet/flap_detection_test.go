package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// An engine that comes and goes is left alone for growing pauses, and is trusted again after it has been well for a
// while.
func TestKeeperQuarantinesAFlappingEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		lose func(*rig, *fakeEngine)
	}{
		{"lost", func(r *rig, e *fakeEngine) {
			e.set(func(e *fakeEngine) { e.fault = errRefused })
			r.within(4*time.Second, "a", "lost", in(enginestate.EngineLost))
			e.set(func(e *fakeEngine) { e.fault = nil })
		}},
		{"restarted", func(_ *rig, e *fakeEngine) { e.set(func(e *fakeEngine) { clear(e.adapters) }) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "a")
				if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
					t.Fatal(err)
				}
				e := r.engines["http://a:8000"]
				ready := func(e enginestate.Engine) bool { return e.State == enginestate.EngineReady && len(e.Adapters) == 1 }
				r.within(5*time.Second, "a", "ready", ready)
				for range 2 {
					tt.lose(r, e)
					time.Sleep(2 * time.Second)
					r.within(3*time.Second, "a", "ready after a loss", ready)
				}
				pause := time.Duration(0)
				for range 3 {
					tt.lose(r, e)
					r.within(2*time.Second, "a", "quarantined", func(e enginestate.Engine) bool {
						return e.State == enginestate.EngineQuarantined && strings.Contains(e.Reason, "lost or restarted")
					})
					took := r.within(time.Minute, "a", "ready after a quarantine", ready)
					if took <= pause {
						t.Errorf("quarantined for %v, and for %v the time before", took, pause)
					}
					pause = took
				}
				time.Sleep(6 * time.Minute)
				tt.lose(r, e)
				time.Sleep(2 * time.Second)
				r.within(3*time.Second, "a", "ready after a loss that is one alone", ready)
				for _, state := range r.events.states("a")[len(r.events.states("a"))-2:] {
					if state == enginestate.EngineQuarantined {
						t.Error("quarantined for one loss")
					}
				}
			})
		})
	}
}
