package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

func engineSeen(id string, at time.Time, running, outputTPS float64) enginestate.Engine {
	return enginestate.Engine{ID: rollout.EngineID(id), State: enginestate.EngineReady, MaxInFlight: 64,
		Load: enginestate.EngineLoad{
			At: at, WindowSec: 1, Running: running, InputTPS: 10 * outputTPS, OutputTPS: outputTPS, PrefixHitShare: 0.5,
			Requests: 4, RequestSec: 2.5, KVUsage: 0.25, Preemptions: 1,
		}}
}

// What an engine did in a window is what it was seen to do at each look, whatever the stretches that rows are made of;
// an engine that joins in the middle counts for the time in which it was ready.
func TestEngineViews(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1e6)
	s, w := newEngineStretches(), newEngineWindow(start, start.Add(time.Minute))
	for sec := range 91 {
		now := start.Add(time.Duration(sec) * time.Second)
		engines := []enginestate.Engine{engineSeen("a", now, 32, 100)}
		if sec > 30 {
			engines = append(engines, engineSeen("b", now, 8, 50))
		}
		w.add(now, s.add(now, engines))
	}
	views := w.views()
	if len(views) != 2 {
		t.Fatalf("%d engines, want 2: %+v", len(views), views)
	}
	for i, want := range []struct{ sec, inFlight, output, requests float64 }{{60, 32, 100, 240}, {30, 8, 50, 120}} {
		v := views[i]
		near := func(what string, got, want, within float64) {
			if math.Abs(got-want) > within {
				t.Errorf("%s of %s is %v, want %v", what, v.Engine, got, want)
			}
		}
		near("the window", v.WindowSec, want.sec, 1)
		near("in flight", v.InFlight, want.inFlight, 1e-3*want.inFlight)
		near("the rate", v.OutputTPS, want.output, 1e-3*want.output)
		near("the requests", v.Requests, want.requests, 8)
		near("the request time", v.RequestSec, 2.5, 1e-3)
		near("the hits", v.PrefixHitShare, 0.5, 1e-3)
		near("the limit", v.Limit, 64, 1e-3)
		sum := enginestate.LoadBin{}
		for _, b := range v.Loads {
			sum = sum.Add(b)
		}
		near("the bins' time", sum.Sec, v.WindowSec, 0.1)
		near("the bins' tokens", sum.OutputTokens, v.OutputTPS*v.WindowSec, 0.01*v.OutputTPS*v.WindowSec)
		near("the bins' prompts", sum.InputTokens, 5*v.OutputTPS*v.WindowSec, 0.05*v.OutputTPS*v.WindowSec)
	}
}

// However many engines there are and however long a step takes, they take at most 24 kB of its record.
func TestEngineViewsAreBounded(t *testing.T) {
	t.Parallel()
	for _, engines := range []int{1, 8, 64, 500} {
		start := time.UnixMilli(1e6)
		s, w := newEngineStretches(), newEngineWindow(start, start.Add(time.Hour))
		rowBytes := 0
		for sec := range 600 {
			now := start.Add(time.Duration(sec) * time.Second)
			var all []enginestate.Engine
			for e := range engines {
				all = append(all, engineSeen(fmt.Sprintf("10.123.45.%d-8000", e), now, 31.4159*float64(1+sec%7), 12345.678))
			}
			rows := s.add(now, all)
			b, err := json.Marshal(rows)
			if err != nil {
				t.Fatal(err)
			}
			rowBytes = max(rowBytes, len(b))
			w.add(now, rows)
		}
		b, err := json.Marshal(w.views())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d engines: %d bytes in a record, %d in a sample of %v", engines, len(b), rowBytes, stretch)
		if len(b) > 24<<10 || rowBytes > 16<<10*max(1, engines/enginestate.MaxEngineViews) {
			t.Errorf("%d engines take %d bytes of a record and %d of a sample", engines, len(b), rowBytes)
		}
	}
}

// Of more engines than a record has room for, those are in it that were slow over the whole window, whatever they are
// called, and beside them the same others as in any window.
func TestViewsOfManyEngines(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(1e6)
	views := func(slow string) map[rollout.EngineID]bool {
		s, w := newEngineStretches(), newEngineWindow(start, start.Add(time.Minute))
		for sec := range 61 {
			now := start.Add(time.Duration(sec) * time.Second)
			var all []enginestate.Engine
			for e := range 300 {
				id, rate := fmt.Sprintf("e%03d", e), 100+float64((7*e+sec)%13)
				if id == slow {
					rate = 20
				}
				all = append(all, engineSeen(id, now, 8, rate))
			}
			w.add(now, s.add(now, all))
		}
		seen := map[rollout.EngineID]bool{}
		for _, v := range w.views() {
			seen[v.Engine] = true
		}
		return seen
	}
	calm, slow := views(""), views("e299")
	both := 0
	for id := range slow {
		if calm[id] {
			both++
		}
	}
	if len(slow) != enginestate.MaxEngineViews || !slow["e299"] || both < enginestate.MaxEngineViews/2-1 {
		t.Errorf("%d engines, the slow one among them: %v; %d of them in another window, too", len(slow), slow["e299"], both)
	}
}
