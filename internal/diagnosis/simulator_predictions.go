package diagnosis

import "github.com/millrace/millrace/internal/rollout"

// Simulator predicts the step time of a run by simulating it whole. A diagnosis takes its predictions where it meets
// the record better than the replay does, and says so of each. It must answer at once, and the same each time.
type Simulator interface {
	// MedianError is that of the step times that it gives to the run as it was.
	MedianError() float64
	// Predict is what steps take with a change; false: it does not know.
	Predict(c SimulatedChange) (SimulatedStep, bool)
}

// SimulatedChange is what a simulator can do differently. What is 0 stays as it is: the change without any is the run
// itself.
type SimulatedChange struct {
	Engines      int
	Depth        int
	MaxStaleness int64
}

// SimulatedStep is the steady step time of a simulated run.
type SimulatedStep struct {
	StepSec, LowSec, HighSec float64
	Onset                    *rollout.Step // first starved step; nil when none is
}

// simulated is a simulator that is to be believed, with the run as it gives it.
type simulated struct {
	Simulator
	fit Fit
}

// alike is the median error up to which a record does not tell the models apart. The replay repeats what it recorded,
// and meets it by construction, whereas the simulator also knows how games share engines, and so what changes with
// them.
const alike = 0.05

// simulatorOf is the input's simulator and how well it meets the record; better: it does so well enough to be trusted
// with a change, and better than the replay, or as well as a record can tell.
func simulatorOf(in Input, replay Fit) (s simulated, better, known bool) {
	if in.Simulator == nil {
		return simulated{}, false, false
	}
	fact, ok := in.Simulator.Predict(SimulatedChange{})
	if !ok {
		return simulated{}, false, false
	}
	worst := in.Simulator.MedianError()
	fit := Fit{MedianError: worst, Explains: worst <= explained, StepSec: fact.StepSec, Onset: fact.Onset}
	return simulated{in.Simulator, fit}, worst < replay.MedianError && fit.Explains || worst <= alike, true
}

// whatIf is a change as the simulator predicts it; false: it cannot.
func (s simulated) whatIf(c whatIfChange) (WhatIf, bool) {
	if c.simulate == (SimulatedChange{}) {
		return WhatIf{}, false
	}
	step, ok := s.Predict(c.simulate)
	if !ok {
		return WhatIf{}, false
	}
	return WhatIf{
		Change: c.name, Note: c.note, Command: c.command, Staler: c.staler, Less: c.less, deeper: c.deeper, Basis: Modelled,
		Model:   SimulatorModel,
		StepSec: step.StepSec, LowSec: min(step.LowSec, step.StepSec), HighSec: max(step.HighSec, step.StepSec),
		Onset: step.Onset, Outcome: outcomeOf(step.StepSec, s.fit.StepSec),
	}, true
}
