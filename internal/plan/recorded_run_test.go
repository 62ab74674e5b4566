package plan

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/runrecord"
	"github.com/millrace/millrace/internal/sim"
	"github.com/millrace/millrace/internal/sim/calibration"
)

// readRecord is a recorded run of calibration's tests.
func readRecord(t *testing.T, name string) *runrecord.Record {
	t.Helper()
	path := "../sim/calibration/testdata/" + name + ".json.gz"
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	record, err := runrecord.Read(path, f)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func calibrated(t *testing.T, record *runrecord.Record) *calibration.Calibration {
	t.Helper()
	if testing.Short() {
		t.Skip("simulates some dozen runs: some seconds")
	}
	c, err := calibration.Calibrate(t.Context(), record, calibration.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The recorded run of config/examples/seed-004.yaml, played live with 2 engines, is planned with 4, and not deeper.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	c := calibrated(t, readRecord(t, "seed-004/base"))
	r := Request{Setup: c.Setup, Grid: Grid{Engines: []int{2, 4, 5}, Depths: []int{2, 4}}, Seeds: 1, Price: 1.89}
	p, err := Make(t.Context(), r, Options{Simulate: sim.Run, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	r = r.withDefaults()
	for _, price := range []float64{1.89, 0} {
		p.Price, p.Recommendations = price, nil
		p.markFrontier()
		p.recommend(r)
		rec := p.Recommendations[0]
		if rec.Setting == nil || rec.Setting.Engines != 4 || rec.Setting.Depth != 2 {
			t.Errorf("recommends %q, want 4 engines at depth 2", rec.Text)
		}
		if all := strings.Join(rec.Reasons, "\n"); !strings.Contains(all, "with 2 engines more depth would not help") {
			t.Errorf("does not say that depth would not help:\n%s", all)
		}
		checkLaws(t, p)
	}
}

// On the recorded latency-bound run it is depth that is recommended.
func TestRecordedLatencyBoundRun(t *testing.T) {
	t.Parallel()
	c := calibrated(t, readRecord(t, "latency-bound/base"))
	r := Request{Setup: c.Setup, Grid: Grid{Engines: []int{2, 4}, Depths: []int{2, 4}}, Seeds: 1}
	p, err := Make(t.Context(), r, Options{Simulate: sim.Run, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	rec := p.Recommendations[0]
	if rec.Setting == nil || rec.Setting.Depth != 4 {
		t.Errorf("recommends %q, want depth 4", rec.Text)
	}
	if all := strings.Join(rec.Reasons, "\n"); !strings.Contains(all, "engines alone would not") {
		t.Errorf("does not say that engines alone would not help:\n%s", all)
	}
}

// The diagnosis of a recorded run takes the simulator's word where it meets the record better than the replay does, and
// the replay's else.
func TestSimulatedDiagnosis(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"seed-004", "latency-bound"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := readRecord(t, name+"/base")
			in := diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps}
			p := NewPredictor(calibrated(t, record), sim.Run)
			p.Learn(t.Context(), in)
			in.Simulator = p
			r := diagnosis.Diagnose(in)
			if r.Replay == nil || r.Simulator == nil || !r.Simulator.Explains {
				t.Fatalf("the simulator meets the record within %+v, the replay within %+v", r.Simulator, r.Replay)
			}
			t.Logf("replay %.2f %%, simulator %.2f %%", 100*r.Replay.MedianError, 100*r.Simulator.MedianError)
			want := diagnosis.ReplayModel
			if r.Simulator.MedianError < r.Replay.MedianError {
				want = diagnosis.SimulatorModel
			}
			for _, w := range r.WhatIfs {
				t.Logf("%-28s %6.2f s %-14s %s", w.Change, w.StepSec, w.Outcome, w.Model)
				if w.Model != want {
					t.Errorf("%+v: want the %s", w, want)
				}
			}
		})
	}
}
