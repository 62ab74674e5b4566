package supply

import (
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// An engine that was refused, or waits for a machine, is counted, and costs nothing.
func TestEnginesThatNeverRanAreNotPaidFor(t *testing.T) {
	t.Parallel()
	served := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	engine := func(is, state enginestate.EngineState) Owned {
		return Owned{Engine: Engine{State: is, Instance: provider.Instance{State: state}}}
	}
	lost := engine(enginestate.EngineReady, enginestate.EngineFailed)
	lost.ServedAt = served
	for _, tt := range []struct {
		name string
		e    Owned
		want int
	}{
		{"refused", engine(enginestate.EngineStarting, ""), 0},
		{"waits for a machine", engine(enginestate.EngineStarting, enginestate.EngineOrdered), 0},
		{"starts", engine(enginestate.EngineStarting, enginestate.EngineRunning), 1},
		{"died while it started", engine(enginestate.EngineStopping, enginestate.EngineFailed), 0},
		{"refused, and stopped", engine(enginestate.EngineStopping, ""), 0},
		{"serves", engine(enginestate.EngineReady, enginestate.EngineRunning), 1},
		{"ends", engine(enginestate.EngineDraining, enginestate.EngineStopping), 1},
		{"has served, and is not known to be gone", lost, 1},
	} {
		s := State{Engines: []Owned{tt.e}}
		if got := s.Count().Paid(); got != tt.want {
			t.Errorf("%s: %d are paid for, want %d", tt.name, got, tt.want)
		}
	}
	m, err := scaling.New(scaling.Config{Policy: scaling.Fixed, Engines: 2, Max: 4, Price: 3600})
	if err != nil {
		t.Fatal(err)
	}
	for sec := range 3 {
		m.Handle(scaling.Sample{At: served.Add(time.Duration(sec) * time.Second), Sec: 1,
			Engines: scaling.Engines{Ready: 1, Starting: 1, Unpaid: 1}})
	}
	if m.Cost < 2.999 || m.Cost > 3.001 {
		t.Errorf("3 s of one engine that serves and one that was refused cost %g $, want 3", m.Cost)
	}
}

// A provider's fault says once what was done.
func TestTroubleSaysOnceWhatWasDone(t *testing.T) {
	t.Parallel()
	p := New()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p.Handle(Seen{At: at, Wanted: 1})
	p.Handle(Seen{At: at.Add(time.Second), Wanted: 1,
		Results: []Result{{Do: DoStart, ID: IDOf(1), Fault: "start engine scaled-1: no quota"}}})
	if want := "start scaled-1: no quota"; p.Trouble != want || p.Engines[0].Reason != "no quota" {
		t.Errorf("trouble %q, reason %q; want %q", p.Trouble, p.Engines[0].Reason, want)
	}
	p = New()
	p.Handle(Seen{At: at, ListFault: "list engines: no answer"})
	if want := "list engines: no answer"; p.Trouble != want {
		t.Errorf("trouble %q; want %q", p.Trouble, want)
	}
}

// A cold start begins with the order that was taken: how long the provider refused it says nothing of engines.
func TestColdStartBeginsWithTheOrderThatWasTaken(t *testing.T) {
	t.Parallel()
	p := New()
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	after := func(d time.Duration, seen Seen) {
		seen.At, seen.Wanted = at.Add(d), 1
		p.Handle(seen)
	}
	refused := []Result{{Do: DoStart, ID: IDOf(1), Fault: "no quota"}}
	runs := []provider.Instance{{ID: IDOf(1), State: enginestate.EngineRunning, URL: "http://host:1"}}
	after(0, Seen{})
	after(time.Second, Seen{Results: refused})
	after(time.Hour, Seen{}) // it is ordered again
	after(time.Hour+time.Second, Seen{Listed: runs, Results: []Result{{Do: DoStart, ID: IDOf(1)}}})
	after(time.Hour+time.Minute, Seen{Listed: runs, Members: []Member{{ID: IDOf(1), State: enginestate.EngineReady,
		URL: "http://host:1", Since: at.Add(time.Hour + 30*time.Second)}}})
	if got := p.ColdStartSec(); got != 30 {
		t.Errorf("a cold start of %g s, want 30", got)
	}
}
