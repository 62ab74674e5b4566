package sim

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/simulate/sim/workload"
)

// TestDiagnosisOfSimulatedRuns: the diagnosis of a simulated run is that of a live one. Games are those of seed note
// 004 and of a latency-bound run, on profiled engines.
func TestDiagnosisOfSimulatedRuns(t *testing.T) {
	t.Parallel()
	lost := seed004(12, 4)
	lost.Fleet.Events = []FleetEvent{{Kind: LoseEngine, Step: 5, Engine: 0}, {Kind: LoseEngine, Step: 5, Engine: 1}}
	long := seed004(14, 2)
	long.Group.Samples, long.Group.MinSamples, long.Buffer.GroupsPerStep = 3, 3, 2
	long.Fleet.MaxNumSeqs, long.Fleet.MaxInFlight = 64, 72
	long.Workload.Distribution.Phases = workload.Spread{Mean: 40, Spread: 0.1}
	long.Trainer = Trainer{Train: 4 * second, Publish: second / 2}
	for _, tt := range []struct {
		name   string
		setup  Setup
		regime diagnosis.RegimeKind
		cause  diagnosis.CauseName // of the first finding; empty: there is none
		onset  int                 // step at which steps become slow; 0: not told
		helps  string              // beginning of the what-ifs that alone help; empty: of all kinds some do
	}{
		{"two engines", seed004(12, 2), diagnosis.CapacityBound, diagnosis.CauseThroughput, 3, "engines"},
		{"four engines", seed004(12, 4), diagnosis.ComputeBound, "", 0, ""},
		{"two of four engines lost", lost, diagnosis.CapacityBound, diagnosis.CauseEngineLost, 7, "engines"},
		// Its engines answer faster with fewer requests at once: four of them take 17 s for a step, two 22 s.
		{"few long games", long, diagnosis.CapacityBound, diagnosis.CauseThroughput, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := play(t, tt.setup, Options{})
			report := diagnosis.Diagnose(p.Input)
			if report.Regime.Kind != tt.regime {
				t.Errorf("the run is %s, want %s: steps take %s", report.Regime.Kind, tt.regime, shape(p.walls))
			}
			if tt.cause == "" {
				if report.Verdict != diagnosis.VerdictHealthy {
					t.Errorf("%s: %s", report.Verdict, report.Summary)
				}
				return
			}
			if report.Replay == nil || len(report.Missing) > 0 {
				t.Errorf("replay %v, missing %v", report.Replay, report.Missing)
			}
			named := slices.ContainsFunc(report.Findings, func(f diagnosis.Finding) bool { return f.Cause == tt.cause })
			if !named {
				t.Errorf("findings %+v, want %s", report.Findings, tt.cause)
			}
			if tt.onset > 0 && (report.Rise == nil || math.Abs(float64(int(report.Rise.At)-tt.onset)) > 1) {
				t.Errorf("steps become slower at %+v, want step %d: %s", report.Rise, tt.onset, shape(p.walls))
			}
			for _, w := range report.WhatIfs {
				helps := w.Outcome == diagnosis.Helps
				if tt.helps != "" && helps != strings.HasPrefix(w.Change, tt.helps) &&
					(strings.HasPrefix(w.Change, "engines") || strings.HasPrefix(w.Change, "depth")) {
					t.Errorf("%s: %s", w.Change, w.Outcome)
				}
			}
		})
	}
}
