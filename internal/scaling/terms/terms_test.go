package terms

import (
	"math"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Two engines that generate 1,000 tokens a second each with full slots need 300 s for a batch of 600,000 tokens.
func TestTermsOfACapacityBoundRun(t *testing.T) {
	t.Parallel()
	var f Fleet
	f.Read(Counters{})
	w := f.Read(Counters{Sec: 10, EngineSec: 20, BusySec: 20, InFlightSec: 160, LimitSec: 160, QueuedSec: 50,
		Output: 20_000})
	about(t, "slot share", w.SlotShare, 1)
	about(t, "queue", w.Queued, 5)
	r := Run{GroupsPerStep: 4, Depth: 2}
	for range 8 {
		r.GroupReady(&rollout.GroupView{Usage: rollout.Usage{OutputTokens: 150_000}, EpisodeSec: []float64{90, 120},
			QueueSec: []float64{10, 80}})
	}
	r.StepDone(140)
	r.StepDone(160)
	c, p, rd := r.Terms(2, f.Rate())
	about(t, "C", c, 150)
	about(t, "P", p, 300)
	about(t, "R/D", rd, 40)
}

// What is not known is 0: no group, no step, no engine.
func TestTermsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	r := Run{GroupsPerStep: 4, Depth: 2}
	if c, p, rd := r.Terms(2, 1000); c != 0 || p != 0 || rd != 0 {
		t.Errorf("of nothing: %v, %v, %v", c, p, rd)
	}
	r.GroupReady(&rollout.GroupView{Usage: rollout.Usage{OutputTokens: 1000}, EpisodeSec: []float64{10}})
	for _, tt := range []struct{ engines, rate float64 }{{0, 100}, {2, 0}} {
		if _, p, _ := r.Terms(tt.engines, tt.rate); p != 0 {
			t.Errorf("P of %v engines at %v tokens/s is %v", tt.engines, tt.rate, p)
		}
	}
}

// The rate is that of full slots, once they were full; before, the highest seen.
func TestRateIsThatOfFullSlots(t *testing.T) {
	t.Parallel()
	var f Fleet
	sum := Counters{}
	window := func(inFlight float64, output int64) {
		sum.Sec, sum.EngineSec, sum.LimitSec = sum.Sec+10, sum.EngineSec+10, sum.LimitSec+100
		sum.InFlightSec, sum.Output = sum.InFlightSec+inFlight, sum.Output+output
		f.Read(sum)
	}
	window(50, 4000)
	about(t, "the highest", f.Rate(), 400)
	window(20, 2000)
	about(t, "still the highest", f.Rate(), 400)
	window(100, 7000)
	about(t, "that of full slots", f.Rate(), 700)
	window(30, 9000)
	about(t, "that of full slots, still", f.Rate(), 700)
	for range 200 {
		window(100, 3000)
	}
	if rate := f.Rate(); rate > 310 {
		t.Errorf("after half an hour with 300 tokens/s: %v", rate)
	}
	// Counters that begin anew bring nothing.
	if w := f.Read(Counters{Sec: 10_000}); w != (Window{}) {
		t.Errorf("counters that began anew made %+v", w)
	}
}
