package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func TestLag(t *testing.T) {
	t.Parallel()
	fast := fleet.Pace{OutputTPS: 1000, Running: 50}
	others := []fleet.Pace{fast, fast, {OutputTPS: 900, Running: 50}}
	for _, tt := range []struct {
		name   string
		was    string
		mine   fleet.Pace
		others []fleet.Pace
		slow   bool
	}{
		{"as fast", "", fast, others, false},
		{"a little slower", "", fleet.Pace{OutputTPS: 600, Running: 50}, others, false},
		{"far slower", "", fleet.Pace{OutputTPS: 300, Running: 50}, others, true},
		{"has less to do", "", fleet.Pace{OutputTPS: 300, Running: 15}, others, false},
		{"hung: all of it is running, nothing comes", "", fleet.Pace{Running: 50}, others, true},
		{"given half, still slow", "slow", fleet.Pace{OutputTPS: 200, Running: 25}, others, true},
		{"given half, recovered", "slow", fleet.Pace{OutputTPS: 520, Running: 25}, others, false},
		{"hardly anything to do", "", fleet.Pace{OutputTPS: 11, Running: 0.3},
			[]fleet.Pace{{OutputTPS: 28, Running: 0.3}}, false},
		{"alone", "", fleet.Pace{OutputTPS: 1, Running: 50}, nil, false},
		{"idle keeps what was said", "slow", fleet.Pace{}, others, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := fleet.Lag(tt.was, tt.mine, tt.others); (got != "") != tt.slow {
				t.Errorf("got %q, want slow: %v", got, tt.slow)
			}
		})
	}
}

func TestSlowEnginesAreReportedAndGivenLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "a", "b", "c")
		tokens := map[string]float64{"a": 100, "b": 1000, "c": 1000}
		work := func(d time.Duration) {
			for range int(d / time.Second) {
				time.Sleep(time.Second)
				for id, n := range tokens {
					r.engines["http://"+id+":8000"].set(func(e *fakeEngine) { e.sample.GenerationTokens += n; e.sample.Running = 8 })
				}
			}
		}
		work(45 * time.Second)
		a, _ := r.registry.Get(t.Context(), "a")
		b, _ := r.registry.Get(t.Context(), "b")
		if a.Slow == "" || a.Limit() != 4 || b.Slow != "" || b.Limit() != 8 {
			t.Errorf("a is given %d (%s), b %d (%s)", a.Limit(), a.Slow, b.Limit(), b.Slow)
		}
		tokens["a"] = 1000
		work(60 * time.Second)
		if a, _ = r.registry.Get(t.Context(), "a"); a.Slow != "" {
			t.Errorf("still slow: %s", a.Slow)
		}
		var told []bool
		for _, e := range r.events.all() {
			if body, ok := e.Body.(telemetry.EnginePaced); ok && e.Engine == "a" {
				told = append(told, body.Slow != "")
			}
		}
		if len(told) != 2 || !told[0] || told[1] {
			t.Errorf("events %v, want slow and no longer slow", told)
		}
	})
}
