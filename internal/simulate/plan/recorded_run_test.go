package plan

import (
	"context"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/simulate/sim"
	"github.com/millrace/millrace/internal/simulate/sim/calibration"
)

// recordOf is a recorded run of calibration's tests.
func recordOf(name string) (*runrecord.Record, error) {
	path := "../sim/calibration/testdata/" + name + "/base.json.gz"
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return runrecord.Read(path, f)
}

// calibrations are made once for all tests.
var calibrations = map[string]func() (*calibration.Calibration, error){}

func init() {
	for _, name := range []string{"seed-004", "latency-bound"} {
		calibrations[name] = sync.OnceValues(func() (*calibration.Calibration, error) {
			record, err := recordOf(name)
			if err != nil {
				return nil, err
			}
			return calibration.Calibrate(context.Background(), record, calibration.Options{})
		})
	}
}

func calibrated(t *testing.T, name string) *calibration.Calibration {
	t.Helper()
	if testing.Short() {
		t.Skip("simulates some dozen runs: some seconds")
	}
	c, err := calibrations[name]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The recorded run of config/examples/seed-004.yaml, played live with 2 engines, is planned with 4, and not deeper.
func TestRecordedRun(t *testing.T) {
	t.Parallel()
	c := calibrated(t, "seed-004")
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
	c := calibrated(t, "latency-bound")
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

// Live runs with the changes made that a diagnosis of a recorded run asks about take about as long as it said.
func TestPredictionsOfDiagnosis(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		live map[string]float64 // mean steady step of the live runs in calibration's tests, in seconds
	}{
		{"seed-004", map[string]float64{"engines 2 -> 4": 5.11, "depth 2 -> 4": 9.79}},
		{"latency-bound", map[string]float64{"engines 2 -> 4": 8.09, "depth 2 -> 4": 6.01}},
	} {
		record, err := recordOf(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		r := diagnosis.Diagnose(diagnosis.Input{Spec: record.Run.Spec, Records: record.Steps})
		for _, w := range r.WhatIfs {
			t.Logf("%-28s %6.2f s %-14s live %v", w.Change, w.StepSec, w.Outcome, tt.live[w.Change])
			if live := tt.live[w.Change]; live > 0 && math.Abs(w.StepSec/live-1) > 0.07 {
				t.Errorf("%+v: the live run took %v s", w, live)
			}
		}
	}
}
