package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
)

// simulator is one that knows what engines do, and nothing of depth.
type simulator struct{ medianError float64 }

func (s simulator) MedianError() float64 { return s.medianError }

func (s simulator) Predict(c diagnosis.SimulatedChange) (diagnosis.SimulatedStep, bool) {
	switch {
	case c.Depth > 0:
		return diagnosis.SimulatedStep{}, false
	case c.Engines > 0:
		return diagnosis.SimulatedStep{StepSec: 151, LowSec: 150, HighSec: 152}, true
	}
	return diagnosis.SimulatedStep{StepSec: 300, LowSec: 299, HighSec: 301}, true
}

// A what-if is the simulator's where it meets the record better than the replay does, or as well as a record can tell,
// and knows the change. The report says whose each one is.
func TestSimulatorPredictions(t *testing.T) {
	t.Parallel()
	noisy := with(seedCase(), func(m *simRun) { m.noise, m.seed = 0.1, 3 })
	for _, tt := range []struct {
		name        string
		medianError float64
		engines     diagnosis.Model
		says        string
	}{
		{"better than the replay", 0.0001, diagnosis.SimulatorModel, "step times are simulated."},
		{"as good as a record can tell", 0.04, diagnosis.SimulatorModel, "step times are simulated."},
		{"worse than the replay", 0.09, diagnosis.ReplayModel, "step times are replayed."},
		{"does not explain the run", 0.5, diagnosis.ReplayModel, "the simulated run within 50.0 %: step times are replayed."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := noisy.input()
			before := diagnosis.Diagnose(in)
			in.Simulator = simulator{tt.medianError}
			r := diagnosis.Diagnose(in)
			if r.Simulator == nil || r.Simulator.MedianError != tt.medianError || len(r.WhatIfs) != len(before.WhatIfs) {
				t.Fatalf("%d what-ifs, simulator %+v", len(r.WhatIfs), r.Simulator)
			}
			for i, w := range r.WhatIfs {
				want := diagnosis.ReplayModel
				if strings.HasPrefix(w.Change, "engines") {
					want = tt.engines
				}
				if w.Model != want || want == diagnosis.ReplayModel && w.StepSec != before.WhatIfs[i].StepSec {
					t.Errorf("%+v: want the %s's", w, want)
				}
			}
			page := text(t, r)
			if !strings.Contains(strings.Join(strings.Fields(page), " "), tt.says) {
				t.Errorf("no %q in\n%s", tt.says, page)
			}
			if mixed := tt.engines == diagnosis.SimulatorModel; strings.Contains(page, "(replayed)") != mixed {
				t.Errorf("which numbers are replayed:\n%s", page)
			}
		})
	}
}
