package diagnosis_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// The seed's case: C = 150 s, P = 300 s, depth 2.
func seedCase() simRun {
	return simRun{compute: 150, groups: 16, depth: 2, engines: 4, places: 1, group: 75, steps: 12}
}

// Games of 600 s on engines with room for twice as many: P = 150 s, R/D = 300 s.
func latencyCase() simRun {
	return simRun{compute: 150, groups: 16, depth: 2, engines: 4, places: 16, group: 600, steps: 12}
}

func with(m simRun, changes ...func(*simRun)) simRun {
	for _, c := range changes {
		c(&m)
	}
	return m
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	slow := func(m *simRun) { m.speed = 1 }
	deep := func(d int) func(*simRun) { return func(m *simRun) { m.depth = d } }
	for _, tt := range []struct {
		name    string
		run     simRun
		walls   []float64 // of the first steps
		verdict diagnosis.Verdict
		cause   diagnosis.CauseName
		regime  diagnosis.RegimeKind
		since   rollout.Step
		step    float64
	}{
		{"the seed's case", seedCase(), []float64{150, 150, 150, 300, 300},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 3, 300},
		{"depth 3 only moves it", with(seedCase(), deep(3)), []float64{150, 150, 150, 150, 150, 300, 300},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 5, 300},
		{"depth 4 only moves it", with(seedCase(), deep(4)), []float64{150, 150, 150, 150, 150, 150, 150, 300},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 7, 300},
		{"no overlap at depth 1", with(seedCase(), deep(1)), []float64{150, 300, 300, 300},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 1, 300},
		{"prefill of one batch", with(seedCase(), func(m *simRun) { m.prefill = 1 }), []float64{150, 300, 300},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 1, 300},
		{"five steps", with(seedCase(), func(m *simRun) { m.steps = 5 }), nil,
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 3, 300},
		{"twice the engines", with(seedCase(), func(m *simRun) { m.engines = 8 }), []float64{150, 150, 150, 150, 150},
			diagnosis.VerdictHealthy, "", diagnosis.ComputeBound, 0, 150},
		{"half as many engines again", with(seedCase(), func(m *simRun) { m.engines, m.steps = 6, 24 }),
			[]float64{150, 150, 150, 150, 150},
			diagnosis.VerdictProblem, diagnosis.CauseThroughput, diagnosis.CapacityBound, 5, 200},
		{"idle engines", with(seedCase(), func(m *simRun) { m.engines = 16 }), nil,
			diagnosis.VerdictHealthy, "", diagnosis.ComputeBound, 0, 150},
		{"long games", latencyCase(), []float64{150, 150, 450, 150, 450},
			diagnosis.VerdictProblem, diagnosis.CauseLatency, diagnosis.LatencyBound, 2, 300},
		{"long games at depth 3", with(latencyCase(), deep(3), slow), []float64{150, 150, 150, 300, 150, 150, 300},
			diagnosis.VerdictProblem, diagnosis.CauseLatency, diagnosis.LatencyBound, 3, 200},
		{"long games at depth 4", with(latencyCase(), deep(4), slow), []float64{150, 150, 150, 150, 150},
			diagnosis.VerdictHealthy, "", diagnosis.ComputeBound, 0, 150},
		{"too few places at the workers", with(latencyCase(), func(m *simRun) { m.group, m.workers = 75, 4 }),
			[]float64{150, 150, 150, 300},
			diagnosis.VerdictProblem, diagnosis.CauseWorkers, diagnosis.CapacityBound, 3, 300},
		{"the trainer slows down", with(seedCase(), func(m *simRun) { m.engines, m.slowdown = 16, from(6, 1.5) }), nil,
			diagnosis.VerdictProblem, diagnosis.CauseTrainer, diagnosis.ComputeBound, 6, 225},
		{"cold engines", with(seedCase(), func(m *simRun) {
			m.engines, m.prefill, m.cold = 12, 1, coldAfter(2, 1500)
		}), nil, diagnosis.VerdictHealed, diagnosis.CauseColdEngines, diagnosis.ComputeBound, 1, 150},
		{"an engine is lost", with(seedCase(), func(m *simRun) {
			m.engines, m.steps, m.lost = 9, 24, lostAfter(4, 1800)
		}), nil, diagnosis.VerdictProblem, diagnosis.CauseEngineLost, diagnosis.CapacityBound, -1, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in, walls := tt.run.play()
			for i, want := range tt.walls {
				if math.Abs(walls[i]-want) > 1e-6 {
					t.Fatalf("the simulated steps are %.0f; want %.0f", walls, tt.walls)
				}
			}
			r := diagnosis.Diagnose(in)
			if r.Verdict != tt.verdict || r.Regime.Kind != tt.regime {
				t.Errorf("%s and %s, want %s and %s (steps %.0f)", r.Verdict, r.Regime.Kind, tt.verdict, tt.regime, walls)
			}
			if math.Abs(r.Regime.StepSec/tt.step-1) > 0.03 {
				t.Errorf("a step takes %.1f s now, want %v", r.Regime.StepSec, tt.step)
			}
			checkFinding(t, r, tt.cause, tt.since)
			checkSums(t, r)
			if t.Failed() {
				t.Log(text(t, r))
			}
		})
	}
}

// from is a factor from one step on.
func from(step int, factor float64) func(int) float64 {
	return func(k int) float64 {
		if k >= step {
			return factor
		}
		return 1
	}
}

// coldAfter makes all engines but the first n ready late.
func coldAfter(n int, sec float64) func(int) float64 {
	return func(engine int) float64 {
		if engine < n {
			return 0
		}
		return sec
	}
}

// lostAfter loses all engines but the first n.
func lostAfter(n int, sec float64) func(int) float64 {
	return func(engine int) float64 {
		if engine < n {
			return math.Inf(1)
		}
		return sec
	}
}

func checkFinding(t *testing.T, r diagnosis.Report, cause diagnosis.CauseName, since rollout.Step) {
	t.Helper()
	if cause == "" {
		if len(r.Findings) > 0 || r.Severity != diagnosis.SeverityOK {
			t.Errorf("found %+v in a healthy run", r.Findings)
		}
		return
	}
	if len(r.Findings) == 0 {
		t.Fatalf("found nothing, want %s", cause)
	}
	f := r.Findings[0]
	if f.Cause != cause {
		t.Errorf("found %s, want %s", f.Cause, cause)
	}
	if since >= 0 && (f.Since == nil || *f.Since != since) {
		t.Errorf("since step %v, want %d", f.Since, since)
	}
}

// checkSums holds a report to what it promises to add up: phases to the shift, shares to one,
// phases to the level, places to the wait.
func checkSums(t *testing.T, r diagnosis.Report) {
	t.Helper()
	const tiny = 1e-6
	shifts := r.Shifts
	if r.Rise != nil {
		shifts = append(slices.Clone(shifts), *r.Rise)
	}
	for _, s := range shifts {
		sec, share := 0.0, 0.0
		for _, p := range s.Phases {
			sec += p.DeltaSec
			share += p.Share
		}
		if math.Abs(sec-s.DeltaSec) > tiny || math.Abs(share-1) > tiny {
			t.Errorf("the phases of the shift at step %d sum to %v s and %v of it, want %v s and 1", s.At, sec, share,
				s.DeltaSec)
		}
	}
	for _, l := range r.Levels {
		phases, wait := 0.0, 0.0
		for _, sec := range l.PhaseSec {
			phases += sec
		}
		for _, p := range l.Wait {
			wait += p.Sec
		}
		if math.Abs(phases-l.StepSec) > tiny {
			t.Errorf("the phases of steps %d-%d sum to %v s, want %v", l.From, l.To, phases, l.StepSec)
		}
		if math.Abs(wait-l.PhaseSec[steprecord.PhaseWait]) > tiny {
			t.Errorf("the places in the wait of steps %d-%d sum to %v s, want %v", l.From, l.To, wait,
				l.PhaseSec[steprecord.PhaseWait])
		}
	}
}

// The two starved regimes can have the same mean step and need opposite advice.
func TestDiagnoseAdvice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		run  simRun
		want map[string]diagnosis.WhatIf
	}{
		{"capacity-bound", seedCase(), map[string]diagnosis.WhatIf{
			"engines 4 -> 8":            {Outcome: diagnosis.Helps, StepSec: 150},
			"depth 2 -> 3":              {Outcome: diagnosis.HelpsNot, StepSec: 300, Onset: at(5)},
			"depth 2 -> 4":              {Outcome: diagnosis.HelpsNot, StepSec: 300, Onset: at(7)},
			"ref log-probs in rollouts": {Outcome: diagnosis.Worse, StepSec: 330, Onset: at(2)},
		}},
		{"latency-bound", latencyCase(), map[string]diagnosis.WhatIf{
			"engines 4 -> 8": {Outcome: diagnosis.HelpsNot, StepSec: 300, Onset: at(2)},
			"depth 2 -> 3":   {Outcome: diagnosis.Helps, StepSec: 200, Onset: at(3)},
			"depth 2 -> 4":   {Outcome: diagnosis.Helps, StepSec: 150},
		}},
		{"short of workers", with(latencyCase(), func(m *simRun) { m.group, m.workers = 75, 4 }), map[string]diagnosis.WhatIf{
			// One load is all that this run has seen: saturated engines would be slower with more games, and faster as more.
			"room for games at workers x2": {Outcome: diagnosis.MayHelp, StepSec: 150},
			"engines 4 -> 8":               {Outcome: diagnosis.MayHelp, StepSec: 300, Onset: at(3)},
			"depth 2 -> 3":                 {Outcome: diagnosis.HelpsNot, StepSec: 300, Onset: at(5)},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := diagnosis.Diagnose(tt.run.input())
			for change, want := range tt.want {
				got := whatIf(r, change)
				if got.Outcome != want.Outcome || math.Abs(got.StepSec-want.StepSec) > 1 || show(got.Onset) != show(want.Onset) {
					t.Errorf("%s: %s, %.1f s, starved from step %s; want %s, %v s, %s", change,
						got.Outcome, got.StepSec, show(got.Onset), want.Outcome, want.StepSec, show(want.Onset))
				}
				if got.Basis != diagnosis.Modelled {
					t.Errorf("%s is labelled %s", change, got.Basis)
				}
			}
			if t.Failed() {
				t.Log(text(t, r))
			}
		})
	}
}

func at(s rollout.Step) *rollout.Step { return &s }

func show(s *rollout.Step) string {
	if s == nil {
		return "never"
	}
	return fmt.Sprint(*s)
}

// With the noise of real runs, thirty times faster, the answer is the same.
func TestDiagnoseNoise(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		run     simRun
		regime  diagnosis.RegimeKind
		change  string // that must help
		useless string // that must not
	}{
		{"capacity-bound", seedCase(), diagnosis.CapacityBound, "engines 4 -> 8", "depth 2 -> 3"},
		{"latency-bound", latencyCase(), diagnosis.LatencyBound, "depth 2 -> 4", "engines 4 -> 8"},
		{"healthy", with(seedCase(), func(m *simRun) { m.engines = 12 }), diagnosis.ComputeBound, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const runs = 12
			wrong := 0
			for seed := range uint64(runs) {
				m := tt.run
				m.noise, m.seed, m.speed = 0.05+0.05*float64(seed%2), seed, 30
				in, walls := m.play()
				r := diagnosis.Diagnose(in)
				checkSums(t, r)
				ok := r.Regime.Kind == tt.regime && (r.Verdict == diagnosis.VerdictProblem) == (tt.change != "")
				for _, w := range r.WhatIfs {
					ok = ok && (w.Change != tt.change || w.Outcome == diagnosis.Helps)
					ok = ok && (w.Change != tt.useless || w.Outcome != diagnosis.Helps)
				}
				ok = ok && (tt.change == "" || len(r.WhatIfs) > 0)
				if !ok {
					wrong++
					t.Logf("seed %d: steps %.1f\n%s", seed, walls, text(t, r))
				}
			}
			if wrong > 0 {
				t.Errorf("%d of %d noisy runs are answered differently", wrong, runs)
			}
		})
	}
}

func text(t *testing.T, r diagnosis.Report) string {
	t.Helper()
	var b strings.Builder
	if err := reporttext.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func cause(r diagnosis.Report, name diagnosis.CauseName) diagnosis.Cause {
	i := slices.IndexFunc(r.Causes, func(c diagnosis.Cause) bool { return c.Name == name })
	if i < 0 {
		return diagnosis.Cause{}
	}
	return r.Causes[i]
}

func whatIf(r diagnosis.Report, change string) diagnosis.WhatIf {
	i := slices.IndexFunc(r.WhatIfs, func(w diagnosis.WhatIf) bool { return w.Change == change })
	if i < 0 {
		return diagnosis.WhatIf{}
	}
	return r.WhatIfs[i]
}

func finding(r diagnosis.Report, cause diagnosis.CauseName) diagnosis.Finding {
	i := slices.IndexFunc(r.Findings, func(f diagnosis.Finding) bool { return f.Cause == cause })
	if i < 0 {
		return diagnosis.Finding{}
	}
	return r.Findings[i]
}

// checkSays holds a report for a person to what it must say, wherever its lines break.
func checkSays(t *testing.T, r diagnosis.Report, says []string) {
	t.Helper()
	page := strings.Join(strings.Fields(text(t, r)), " ")
	for _, want := range says {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// BenchmarkAdapterLoads is a run of 500 steps on 64 engines that load an adapter at each publication: 32,000 loads.
func BenchmarkAdapterLoads(b *testing.B) {
	run := seedCase()
	run.steps, run.engines, run.groups, run.noise = 500, 64, 16, 0.05
	in := run.input()
	for i := range in.Records {
		for engine := range run.engines {
			in.Loads = append(in.Loads, diagnosis.AdapterLoad{
				At:     in.Records[i].Service.CompletedAt.Add(time.Duration(engine) * time.Second),
				Engine: rollout.EngineID(fmt.Sprint("e", engine)), Sec: 20,
			})
		}
	}
	for b.Loop() {
		diagnosis.Diagnose(in)
	}
}
