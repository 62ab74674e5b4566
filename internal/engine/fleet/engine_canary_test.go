package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

func answersWith(code rollout.Code) func(*fakeEngine) {
	return func(e *fakeEngine) { e.badAnswer = rollout.Fail(rollout.Retryable, code, errors.New(string(code))) }
}

// TestCanaryFindsEnginesThatMakeNoCompletions: every other call of theirs is answered.
func TestCanaryFindsEnginesThatMakeNoCompletions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		fail   func(*fakeEngine)
		within time.Duration
	}{
		{"hung", func(e *fakeEngine) { e.stuck = true }, 17 * time.Second},
		{"another model answers", answersWith(rollout.CodeWrongModel), 7 * time.Second},
		{"core is dead", answersWith(rollout.CodeEngineDead), 7 * time.Second},
		{"truncated answers", answersWith(rollout.CodeBadAnswer), 9 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "a", "b")
				r.within(3*time.Second, "a", "ready", in(enginestate.EngineReady))
				e := r.engines["http://a:8000"]
				e.set(tt.fail)
				took := r.within(tt.within, "a", "quarantined", in(enginestate.EngineQuarantined))
				t.Logf("found after %v", took)
				if got, _ := r.registry.Get(t.Context(), "a"); !strings.Contains(got.Reason, "makes no completions") ||
					!got.Recalled {
					t.Errorf("got %+v", got)
				}
				time.Sleep(time.Minute) // the pauses between canaries have grown
				e.set(func(e *fakeEngine) { e.canaries = 0 })
				time.Sleep(5 * time.Minute)
				e.set(func(e *fakeEngine) {
					if e.canaries < 4 || e.canaries > 7 {
						t.Errorf("%d canaries in five minutes of quarantine, want about one a minute", e.canaries)
					}
					e.stuck, e.badAnswer = false, nil
				})
				r.within(75*time.Second, "a", "ready again", in(enginestate.EngineReady))
				if b, _ := r.registry.Get(t.Context(), "b"); b.State != enginestate.EngineReady {
					t.Errorf("the other engine is %s", b.State)
				}
			})
		})
	}
}

func TestOverloadIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a")
		r.within(3*time.Second, "a", "ready", in(enginestate.EngineReady))
		r.engines["http://a:8000"].set(answersWith(rollout.CodeOverloaded))
		for range 100 {
			time.Sleep(time.Second)
			r.within(0, "a", "ready", in(enginestate.EngineReady))
		}
		want := []enginestate.EngineState{enginestate.EngineStarting, enginestate.EngineReady}
		if states := r.events.states("a"); !slices.Equal(states, want) {
			t.Errorf("states %v", states)
		}
	})
}

// TestBusyEnginesNeedFewCanaries: tokens that are generated prove life.
func TestBusyEnginesNeedFewCanaries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "busy", "idle")
		for _, id := range []rollout.EngineID{"busy", "idle"} {
			r.within(3*time.Second, id, "ready", in(enginestate.EngineReady))
		}
		for range 300 {
			time.Sleep(time.Second)
			r.engines["http://busy:8000"].set(func(e *fakeEngine) { e.sample.GenerationTokens += 100 })
		}
		busy, idle := r.engines["http://busy:8000"].canaryCount(), r.engines["http://idle:8000"].canaryCount()
		if busy > 20 || idle < 40 {
			t.Errorf("in five minutes %d canaries for the busy engine, %d for the idle one; want about 15 and 60", busy, idle)
		}
	})
}

// TestCanaryOfASimulatedEngine goes through real answers: a hang on completions only, and one whose bytes trickle.
func TestCanaryOfASimulatedEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault enginesim.Fault
	}{
		{"hang", enginesim.Fault{Kind: enginesim.FaultHang, Path: "/v1/completions"}},
		{"trickle", enginesim.Fault{Kind: enginesim.FaultTrickle, Path: "/v1/completions", Every: time.Second}},
		{"drop", enginesim.Fault{Kind: enginesim.FaultDrop, Path: "/v1/completions"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine, client := simulated(t, nil)
				r := newRig(t)
				r.clients.Store("http://sim:8000", client)
				if _, err := r.registry.Add(t.Context(), enginestate.Engine{ID: "sim", URL: "http://sim:8000"}); err != nil {
					t.Fatal(err)
				}
				r.within(time.Minute, "sim", "ready", in(enginestate.EngineReady))
				if err := engine.Inject(t.Context(), tt.fault); err != nil {
					t.Fatal(err)
				}
				took := r.within(time.Minute, "sim", "quarantined", in(enginestate.EngineQuarantined))
				t.Logf("found after %v", took)
				if err := engine.Heal(t.Context()); err != nil {
					t.Fatal(err)
				}
				r.within(75*time.Second, "sim", "ready again", in(enginestate.EngineReady))
			})
		})
	}
}

func TestEnginesLeave(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		now      bool
		lost     bool
		busy     time.Duration
		min, max time.Duration
	}{
		{name: "idle", max: 5 * time.Second},
		{name: "busy", busy: 20 * time.Second, min: 20 * time.Second, max: 25 * time.Second},
		{name: "busy, now", now: true, busy: time.Hour, min: time.Second, max: 6 * time.Second},
		{name: "lost", lost: true, busy: time.Hour, max: 6 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, "a")
				if err := r.registry.Want(t.Context(), adapter(1)); err != nil {
					t.Fatal(err)
				}
				r.within(5*time.Second, "a", "ready", func(e enginestate.Engine) bool { return len(e.Adapters) == 1 })
				e := r.engines["http://a:8000"]
				e.set(func(e *fakeEngine) { e.sample.Running = 1 })
				time.Sleep(2 * time.Second)
				began := time.Now()
				if tt.lost {
					e.set(func(e *fakeEngine) { e.fault = errRefused })
				}
				if err := r.registry.Remove(t.Context(), "a", tt.now); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(tt.busy, func() { e.set(func(e *fakeEngine) { e.sample.Running = 0 }) })
				for {
					if _, err := r.registry.Get(t.Context(), "a"); rollout.Refused(err, rollout.NoSuchEngine) {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(began); took < tt.min || took > tt.max {
					t.Errorf("left after %v, want %v to %v", took, tt.min, tt.max)
				}
				if !tt.lost && !tt.now && e.serves("demo-v1") {
					t.Error("left without unloading")
				}
			})
		})
	}
}
