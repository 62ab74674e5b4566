// Package calibration makes a simulation's setup from a run's record: which parameter has which value, how it was got,
// and how well the simulated run meets the record. It is pure: the same record gives the same setup.
//
// Start reading at Calibrate.
package calibration

import (
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"
)

// Calibration is a setup that plays a recorded run again, and how far it can be trusted.
type Calibration struct {
	Setup      sim.Setup
	Parameters []Parameter
	Fit        Fit
	// Warnings is what in the record the setup does not say: a fleet that changed, dropped groups, missing events.
	Warnings []string
}

// Parameter is one value of a setup, and where it is from.
type Parameter struct {
	Name  string `json:"name"` // key of the setup
	Value string `json:"value"`
	From  Source `json:"from"`
	How   string `json:"how"`
}

// Source is where a parameter's value is from.
type Source string

// The sources.
const (
	Measured Source = "measured" // read off the record
	Fitted   Source = "fitted"   // chosen so that the simulated run meets the record
	Assumed  Source = "assumed"  // the record does not determine it
)

// Fit is how well the simulated run meets the record.
type Fit struct {
	Steps []StepFit `json:"steps"`
	// MedianError is of the step times, as a share.
	MedianError float64 `json:"median_error"`
	// MeanStep is of the steady steps, which are those of Window.
	MeanStep Pair   `json:"mean_step"`
	Window   Window `json:"steady_steps"`
	// RequestSec is the mean time of a request at an engine.
	RequestSec Pair `json:"request_seconds"`
	BusyShare  Pair `json:"busy_share"` // of the engines' time
	// Simulations is how many runs were simulated to find the parameters.
	Simulations int `json:"simulations"`
}

// StepFit is one step's time without the prefill, in seconds.
type StepFit struct {
	Step rollout.Step `json:"step"`
	Pair
}

// Pair is a quantity in the record and in the simulated run.
type Pair struct {
	Recorded  float64 `json:"recorded"`
	Simulated float64 `json:"simulated"`
}
