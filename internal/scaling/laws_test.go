package scaling

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// FuzzLaws gives machines of all policies samples that make no sense together, and holds what they decide against what
// must never happen:
//
//   - the wanted number is within the bounds and the budget;
//   - decisions are numbered without gaps, each from where the one before ended;
//   - the same events give the same decisions, also when the state went through JSON in between;
//   - a sample that was taken is not decided on again, and one that makes no sense brings nothing;
//   - starvation changes the number at most once in a cold start, operators and idle fleets apart;
//   - starvation buys only where a run's own terms say that it is capacity-bound, or those of all runs together;
//   - the state stays small.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		cfg := drawConfig(r)
		m, err := New(cfg)
		if err != nil {
			t.Skip("drew a configuration that cannot be:", err)
		}
		l := laws{t: t, m: m, wanted: m.Wanted}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		runs := drawRuns(r)
		for range 250 {
			at = at.Add(time.Duration(1+r.IntN(60)) * time.Second)
			if r.IntN(100) == 0 {
				if next := drawConfig(r); next.Validate() == nil {
					l.handle(Set{at, next}, nil)
				}
				continue
			}
			if r.IntN(20) == 0 {
				runs = drawRuns(r)
			}
			s := drawSample(r, at, runs, l.m.Wanted)
			l.handle(s, &s)
		}
	})
}

type laws struct {
	t      *testing.T
	m      *Machine
	wanted int
	no     int
	last   time.Time // change by starvation
}

func (l *laws) handle(ev Event, s *Sample) {
	l.t.Helper()
	before, err := json.Marshal(l.m.State)
	if err != nil {
		l.t.Fatal(err)
	}
	if len(before) > 64<<10 {
		l.t.Fatalf("a state of %d bytes", len(before))
	}
	commands := l.m.Handle(ev)
	l.sameAgain(before, ev, commands)
	if s != nil {
		if again := l.m.Handle(*s); again != nil {
			l.t.Fatalf("the same sample brought %v again", again)
		}
	}
	for _, c := range commands {
		if c, ok := c.(Change); ok {
			l.changed(c.Decision, s)
		}
	}
	if l.m.Wanted != l.wanted {
		l.t.Fatalf("%d engines are wanted, and the changes lead to %d", l.m.Wanted, l.wanted)
	}
}

// sameAgain gives the event to a machine that has nothing but the state.
func (l *laws) sameAgain(before []byte, ev Event, commands []Command) {
	var s State
	if err := json.Unmarshal(before, &s); err != nil {
		l.t.Fatal(err)
	}
	other, err := Restore(s)
	if err != nil {
		l.t.Fatal(err)
	}
	if got := other.Handle(ev); fmt.Sprint(got) != fmt.Sprint(commands) {
		l.t.Fatalf("%v from the same state, and %v before", got, commands)
	}
	if !reflect.DeepEqual(mustJSON(l.t, other.State), mustJSON(l.t, l.m.State)) {
		l.t.Fatalf("another state from the same one:\n%s\n%s", mustJSON(l.t, other.State), mustJSON(l.t, l.m.State))
	}
}

func mustJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (l *laws) changed(d Decision, s *Sample) {
	t, cfg := l.t, l.m.Config
	l.no++
	if d.No != l.no || d.From != l.wanted || d.To == d.From || d.Reason == "" {
		t.Fatalf("decision %+v follows %d engines and decision %d", d, l.wanted, l.no-1)
	}
	l.wanted = d.To
	if d.To > cfg.Max || d.To < 0 || d.To > l.m.affordable() {
		t.Fatalf("%d engines are wanted of at most %d, %d with the budget", d.To, cfg.Max, l.m.affordable())
	}
	if d.To < l.m.least() && d.Code != Idles {
		t.Fatalf("%d engines are wanted of at least %d: %s", d.To, l.m.least(), d.Reason)
	}
	switch d.Code {
	case Buys, GivesBack, Undone, Restored:
		if cold := l.m.coldStart(s); !l.last.IsZero() && d.At.Sub(l.last) < cold {
			t.Fatalf("%s %v after the change before, in a cold start of %v", d.Code, d.At.Sub(l.last), cold)
		}
		l.last = d.At
	case Configured, QueueUp, QueueDown, Idles, Wakes:
		l.last = d.At
	}
	if d.Code != Buys {
		return
	}
	together := 0.0
	for _, r := range s.Runs {
		pace := max(r.C, r.RD, cfg.Starvation.TargetStep.Std().Seconds())
		if !r.Paused && r.P > pace*(1+worthwhile) {
			return
		}
		if !r.Paused && r.C > 0 {
			together += r.work() / pace
		}
	}
	if together > float64(s.Engines.Ready)*(1+worthwhile) {
		return
	}
	t.Fatalf("%s, and no run is capacity-bound: %+v", d.Reason, s.Runs)
}

func drawConfig(r *rand.Rand) Config {
	c := Config{Policy: []Policy{Fixed, Queue, Starvation, Starvation}[r.IntN(4)], Min: r.IntN(4)}
	c.Max = max(1, c.Min+r.IntN(12))
	c.Engines = c.Min + r.IntN(c.Max-c.Min+1)
	if r.IntN(3) == 0 {
		c.Price, c.Budget = 1+r.Float64(), 2+20*r.Float64()
	}
	if r.IntN(3) == 0 {
		c.ScaleToZero = rollout.Duration(time.Duration(r.IntN(20)) * time.Minute)
	}
	c.Queue = QueueConfig{TargetInputs: 1 + r.IntN(20), Buffer: r.IntN(2),
		ScaleUp:   rollout.Duration(time.Duration(r.IntN(60)) * time.Second),
		ScaleDown: rollout.Duration(time.Duration(r.IntN(600)) * time.Second)}
	if r.IntN(3) == 0 {
		c.Starvation = StarvationConfig{TargetStep: rollout.Duration(time.Duration(r.IntN(300)) * time.Second),
			HeadRoom: r.Float64()}
	}
	return c
}

func drawRuns(r *rand.Rand) []Run {
	runs := make([]Run, r.IntN(4))
	for i := range runs {
		runs[i] = Run{Name: rollout.RunName(fmt.Sprint("run", i)), Paused: r.IntN(4) == 0, Priority: r.IntN(3),
			C: float64(r.IntN(300)), P: float64(r.IntN(600)), RD: float64(r.IntN(300)), Engines: float64(r.IntN(10)),
			Depth: r.IntN(5), Steps: r.IntN(3)}
		if r.IntN(4) == 0 {
			runs[i].MaxEngines = 1 + r.IntN(5)
		}
	}
	return runs
}

func drawSample(r *rand.Rand, at time.Time, runs []Run, wanted int) Sample {
	s := Sample{At: at, Sec: 1 + 60*r.Float64(), Outstanding: r.IntN(200), SlotShare: min(1, 1.5*r.Float64()),
		Engines: Engines{Ready: wanted}, ColdStartSec: float64(r.IntN(300)), Adapters: r.IntN(3), LoadSec: r.Float64()}
	if r.IntN(3) == 0 {
		s.Engines = Engines{Starting: r.IntN(4), Ready: r.IntN(10), Draining: r.IntN(3)}
	}
	if r.IntN(10) == 0 {
		s.Price = 3 * r.Float64()
	}
	for i := range runs {
		run := &runs[i]
		if r.IntN(5) == 0 {
			run.Steps++
			run.LastEnd = at
		}
		run.StarvedSec, run.Waits = s.Sec*r.Float64(), r.IntN(2) == 0
	}
	s.Runs = append(s.Runs, runs...)
	if r.IntN(50) == 0 && len(s.Runs) > 0 {
		s.Runs[0].P = -1
	}
	return s
}
