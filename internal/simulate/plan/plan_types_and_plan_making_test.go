package plan

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

func values(from, to int) []int {
	var out []int
	for v := from; v <= to; v++ {
		out = append(out, v)
	}
	return out
}

func TestMake(t *testing.T) {
	t.Parallel()
	wide := Grid{Engines: values(1, 8), Depths: values(1, 4)}
	tall := Grid{Engines: values(1, 4), Depths: values(1, 6)}
	for _, tt := range []struct {
		name    string
		run     pipeline
		request Request
		want    Setting
		text    string
		reasons []string
	}{
		{"engines are the limit", capacityBound, Request{Grid: wide}, Setting{4, 1, 8, 6},
			"4 engines at depth 1: 150 s; 3 engines would take 200 s; a fifth buys nothing", []string{
				"now: 2 engines at depth 2: 300 s, 50 % of it waiting for games",
				"with 4 engines more depth would not help: 150 s at depth 1, 150 s at depth 4",
				"with 2 engines more depth would not help: 300 s at depth 2, 300 s at depth 4"}},
		{"engines are the limit, with a price", capacityBound, Request{Grid: wide, Price: 1.89}, Setting{4, 1, 8, 6},
			"4 engines at depth 1: 150 s and $0.315 a step; 3 engines would take 200 s and $0.315; " +
				"a fifth buys nothing for $1.89/h", nil},
		{"games are the limit", latencyBound, Request{Grid: tall}, Setting{1, 4, 8, 6},
			"1 engine at depth 4: 150 s; a second buys nothing", []string{
				"engines alone would not help: 300 s with 1 engine and 300 s with 4 at depth 2"}},
		{"a target that less than the fastest meets", capacityBound, Request{Grid: wide, TargetSec: 210},
			Setting{3, 1, 8, 6}, "3 engines at depth 1: 200 s; 2 engines would take 300 s; a fourth buys 50 s", nil},
		{"a target that nothing meets", capacityBound, Request{Grid: wide, TargetSec: 100}, Setting{4, 1, 8, 6},
			"no setting of the grid meets a step of 100 s; the fastest is 4 engines at depth 1: 150 s", nil},
		{"a slow engine", capacityBound, Request{Grid: wide, Conditions: Conditions{Slow: []SlowEngine{{1, 0.5}}}},
			Setting{5, 1, 8, 6}, "5 engines at depth 1: 150 s; 4 engines would take 171 s; a sixth buys nothing", nil},
		{"publishing takes a minute", capacityBound,
			Request{Grid: wide, Conditions: Conditions{Publish: ref(rollout.Duration(60e9))}}, Setting{3, 1, 8, 6},
			"3 engines at depth 1: 210 s", nil},
		{"engines are lost", capacityBound, Request{Grid: wide, Conditions: Conditions{Lose: []Loss{{1, 20}}}},
			Setting{5, 1, 8, 6}, "5 engines at depth 1: 150 s", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.request.Setup = seed004()
			p, err := Make(t.Context(), tt.request, Options{Simulate: tt.run.simulate, Workers: 3})
			if err != nil {
				t.Fatal(err)
			}
			rec := p.Recommendations[0]
			if rec.Setting == nil || *rec.Setting != tt.want || !strings.HasPrefix(rec.Text, tt.text) {
				t.Errorf("recommends %+v: %q\nwant %+v: %q", rec.Setting, rec.Text, tt.want, tt.text)
			}
			for _, reason := range tt.reasons {
				if !strings.Contains(strings.Join(rec.Reasons, "\n"), reason) {
					t.Errorf("no %q among the reasons\n%s", reason, strings.Join(rec.Reasons, "\n"))
				}
			}
			checkLaws(t, p)
		})
	}
}

func ref[T any](v T) *T { return &v }

// The figures are those of the theory: a step takes max(C, P, R/D).
func TestFigures(t *testing.T) {
	t.Parallel()
	for _, run := range []pipeline{capacityBound, latencyBound, {compute: 150, work: 310, latency: 10},
		{compute: 150, work: 460, latency: 10, noise: 0.2}} {
		r := Request{Setup: seed004(), Grid: Grid{Engines: values(1, 5), Depths: values(1, 5)}, Price: 2}
		p, err := Make(t.Context(), r, Options{Simulate: run.simulate})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range p.Cells {
			if c.Refused != "" {
				t.Fatalf("%+v is refused: %s", c.Setting, c.Refused)
			}
			// One batch after another is launched when the step before takes its own, so that depth 1 is never less than R.
			want := max(run.compute, run.work/float64(c.Engines), run.latency/float64(c.Depth))
			if math.Abs(c.Step.Mean/want-1) > 0.02+run.noise/4 {
				t.Errorf("%+v: %d engines at depth %d take %.1f s, want %.1f", run, c.Engines, c.Depth, c.Step.Mean, want)
			}
			if starved := 1 - run.compute/c.Step.Mean; math.Abs(c.StarvedShare-starved) > 0.01 {
				t.Errorf("starved %.3f, want %.3f", c.StarvedShare, starved)
			}
			if cost := 2 * float64(c.Engines) * c.Step.Mean / 3600; math.Abs(c.StepCost-cost) > 1e-9 {
				t.Errorf("%v $ a step, want %v", c.StepCost, cost)
			}
			if c.TrainedTokens != 1e6+1000 || math.Abs(c.TokenCost-c.StepCost*1e6/c.TrainedTokens) > 1e-9 {
				t.Errorf("%v tokens a step, %v $ a million", c.TrainedTokens, c.TokenCost)
			}
			if prefill := max(float64(c.Depth)*run.work/float64(c.Engines), run.latency); run.noise == 0 &&
				math.Abs(c.PrefillSec-prefill) > 1e-6 {
				t.Errorf("prefill %v s, want %v", c.PrefillSec, prefill)
			}
		}
		checkLaws(t, p)
	}
}

// A loss that the buffer hides for a while is seen in the steps after it.
func TestLostEngines(t *testing.T) {
	t.Parallel()
	setup := seed004()
	setup.Fleet.Engines = 4
	r := Request{Setup: setup, Conditions: Conditions{Lose: []Loss{{Engines: 2, Step: 12}}}}
	p, err := Make(t.Context(), r, Options{Simulate: capacityBound.simulate})
	if err != nil {
		t.Fatal(err)
	}
	c := p.Cells[0]
	if math.Abs(c.BeforeSec-150) > 1 || math.Abs(c.Step.Mean-300) > 3 {
		t.Errorf("%.1f s before the loss and %.1f after; want 150 and 300", c.BeforeSec, c.Step.Mean)
	}
	if p.Unchanged == nil || math.Abs(p.Unchanged.Step.Mean-150) > 1 {
		t.Errorf("without the loss: %+v, want 150 s", p.Unchanged)
	}
	r.Conditions.Lose[0].Engines = 4
	if _, err = Make(t.Context(), r, Options{Simulate: capacityBound.simulate}); err == nil ||
		!strings.Contains(err.Error(), "takes the last engine away") {
		t.Errorf("a fleet that is lost wholly: %v", err)
	}
}

func TestDepthThatStalenessDoesNotAdmit(t *testing.T) {
	t.Parallel()
	r := Request{Setup: seed004(), Grid: Grid{Depths: values(1, 7)}}
	r.Setup.Buffer.MaxStaleness = 2
	run := pipeline{compute: 100, work: 10, latency: 600}
	p, err := Make(t.Context(), r, Options{Simulate: run.simulate})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Cells {
		if (c.NeedsStaleness > 0) != (c.Depth > 3) || c.NeedsStaleness > 0 && c.Frontier {
			t.Errorf("depth %d: needs %d, frontier %v", c.Depth, c.NeedsStaleness, c.Frontier)
		}
	}
	if got := p.Recommendations[0].Setting.Depth; got != 3 {
		t.Errorf("recommends depth %d, want 3", got)
	}
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "--set buffer.max_staleness=7") {
		t.Errorf("notes %q do not say what to set", notes)
	}
}

// Each size of batch has its own recommendation: a step of fewer groups is faster, and trains on less.
func TestBatches(t *testing.T) {
	t.Parallel()
	r := Request{Setup: seed004(), Grid: Grid{Engines: values(1, 6), Groups: []int{4, 8, 16}, Samples: []int{6, 13}}}
	p, err := Make(t.Context(), r, Options{Simulate: capacityBound.simulate})
	if err != nil {
		t.Fatal(err)
	}
	var engines []int
	for _, rec := range p.Recommendations {
		if rec.Setting == nil {
			if !strings.Contains(rec.Text, "13 games are too many") {
				t.Errorf("%q does not say why", rec.Text)
			}
			continue
		}
		engines = append(engines, rec.Setting.Engines)
	}
	if len(engines) != 3 || engines[0] != 4 || engines[1] != 2 || engines[2] != 6 {
		t.Errorf("engines for 8, 4 and 16 groups: %v, want 4, 2 and 6", engines)
	}
	checkLaws(t, p)
}

// An interrupted plan holds what is known, and the run's own setting is known first.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Unix(0, 0)
	o := Options{Simulate: capacityBound.simulate, Now: func() time.Time { now = now.Add(time.Second); return now }}
	var last Progress
	o.Tell = func(p Progress) {
		last = p
		if p.Done == 3 {
			cancel()
		}
	}
	p, err := Make(ctx, Request{Setup: seed004(), Grid: Grid{Engines: values(1, 8), Depths: values(1, 4)}}, o)
	if !errors.Is(err, context.Canceled) || p == nil || p.Complete || len(p.Cells) != 3 || p.Now == nil {
		t.Fatalf("%v, %+v", err, p)
	}
	if last.Of != 32 || last.Left <= 0 {
		t.Errorf("progress %+v", last)
	}
}

func TestSameInputsSameBytes(t *testing.T) {
	t.Parallel()
	run := pipeline{compute: 150, work: 600, latency: 60, noise: 0.3}
	var first string
	for _, workers := range []int{1, 4} {
		r := Request{Setup: seed004(), Grid: Grid{Engines: values(1, 6), Depths: values(1, 3)}, Price: 1.89}
		p, err := Make(t.Context(), r, Options{Simulate: run.simulate, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(b)
		} else if first != string(b) {
			t.Error("more workers give another plan")
		}
	}
}

// checkLaws holds a plan to what is true of every one.
func checkLaws(t *testing.T, p *Plan) {
	t.Helper()
	for i := range p.Cells {
		a := &p.Cells[i]
		beaten := false
		for k := range p.Cells {
			b := &p.Cells[k]
			if a.Eligible() && b.Eligible() && a.Batch() == b.Batch() {
				beaten = beaten || p.beats(b, a)
			}
		}
		if a.Eligible() && a.Frontier == beaten {
			t.Errorf("%+v: beaten %v, on the frontier %v", a.Setting, beaten, a.Frontier)
		}
	}
	for _, rec := range p.Recommendations {
		if rec.Setting == nil {
			continue
		}
		best := p.cell(*rec.Setting)
		for i := range p.Cells {
			c := &p.Cells[i]
			if !c.Eligible() || c.Batch() != best.Batch() {
				continue
			}
			if p.TargetSec == 0 && best.Step.Mean > c.Step.Mean*(1+near) {
				t.Errorf("recommends %+v of %v s, and %+v takes %v s", best.Setting, best.Step.Mean, c.Setting, c.Step.Mean)
			}
			if p.TargetSec == 0 && p.Price > 0 && c.Step.Mean <= best.Step.Mean && c.StepCost < best.StepCost*0.99 {
				t.Errorf("recommends %+v, and %+v is faster and cheaper", best.Setting, c.Setting)
			}
		}
	}
}
