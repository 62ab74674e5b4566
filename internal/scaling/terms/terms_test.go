package terms

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
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
		r.GroupReady(&steprecord.GroupView{Usage: rollout.Usage{OutputTokens: 150_000}, EpisodeSec: []float64{90, 120},
			QueueSec: []float64{10, 80}, ModelSec: []float64{70, 35}, EnvSec: []float64{5, 5}})
	}
	r.StepDone(140)
	r.StepDone(160)
	c, p, rd := r.Terms(2, f.Rate())
	about(t, "C", c, 150)
	about(t, "P", p, 300)
	about(t, "R/D", rd, 40)
}

// A game counts as begun when its first phase is dispatched, so that its time in the queue before is part of its time
// in the queue, and not of its length.
func TestLatencyOfGamesThatQueuedBeforeTheyBegan(t *testing.T) {
	t.Parallel()
	r := Run{GroupsPerStep: 1, Depth: 2}
	r.GroupReady(&steprecord.GroupView{EpisodeSec: []float64{200}, QueueSec: []float64{900}, ModelSec: []float64{150},
		EnvSec: []float64{40}})
	_, _, rd := r.Terms(1, 1)
	about(t, "R/D", rd, 95)
}

// What is not known is 0: no group, no step, no engine.
func TestTermsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	r := Run{GroupsPerStep: 4, Depth: 2}
	if c, p, rd := r.Terms(2, 1000); c != 0 || p != 0 || rd != 0 {
		t.Errorf("of nothing: %v, %v, %v", c, p, rd)
	}
	r.GroupReady(&steprecord.GroupView{Usage: rollout.Usage{OutputTokens: 1000}, EpisodeSec: []float64{10}})
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

// What is kept of a run is bounded, whatever its batches are; the terms are those of its newest groups, nearly.
func TestWhatIsKeptOfALargeBatchIsBounded(t *testing.T) {
	t.Parallel()
	r := Run{GroupsPerStep: 1000, Depth: 2}
	ready := func(groups int, tokens int64) {
		for range groups {
			r.GroupReady(&steprecord.GroupView{Usage: rollout.Usage{OutputTokens: tokens}, EpisodeSec: []float64{10}})
		}
	}
	ready(1, 700)
	if _, p, rd := r.Terms(1, 100); p != 7000 || rd != 5 {
		t.Errorf("of one group: P %v, R/D %v", p, rd)
	}
	ready(3000, 50)
	ready(1000, 100)
	ready(1000, 300)
	_, p, rd := r.Terms(1, 100)
	about(t, "R/D", rd, 5)
	if off := math.Abs(p-2000) / 2000; off > 0.05 {
		t.Errorf("P is %v, want about 2000", p)
	}
	text, err := json.Marshal(r)
	if err != nil || len(text) > 3000 || len(r.Newest) > mostKept {
		t.Errorf("%d entries, %d bytes: %v", len(r.Newest), len(text), err)
	}
}
