// Package experiment is experiments on scheduling that anyone can run again: a setting, what is varied in it, and
// claims about the outcome, each with an expression that decides it. A cell of an experiment is played in virtual time
// by the service's own dispatch.Scheduler (package openloop) or, of a whole training pipeline, by package sim; where
// chance plays, it is played with several seeds, and a claim holds only if its interval says so.
//
// A file looks like those in files; a key of a setting is a field of Setting. Package experiment/report writes results
// for people. Start reading at Experiment and Run.
package experiment

import (
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/sim"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/trials/experiment/arrivals"
	"github.com/millrace/millrace/trials/experiment/staticbatch"
	"github.com/millrace/millrace/trials/experiment/wholebatch"
)

// Experiment is one file.
type Experiment struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Source  string  `json:"source"`
	About   string  `json:"about"`
	Seeds   int     `json:"seeds"`
	Slow    bool    `json:"slow"`
	Setting Setting `json:"setting"` // of every part; parts say what is different in them
	Parts   []Part  `json:"parts"`
	Claims  []Claim `json:"claims"`
}

// Part is one table of results: every combination of the points of its axes is a cell.
type Part struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	About   string   `json:"about"`
	Set     []string `json:"set"` // KEY=VALUE, over the setting
	Axes    []Axis   `json:"axes"`
	Columns []string `json:"columns"` // metrics that the table shows
	Figure  Figure   `json:"figure"`

	Cells []Cell `json:"-"`
}

// Axis is what is varied.
type Axis struct {
	Name   string   `json:"name"`
	Key    string   `json:"key"`    // with values: each is set at this key
	Values []string `json:"values"` // such as 5s; they are the points' names, too
	Points []Point  `json:"points"` // or each point with what it sets
}

// Point is one place on an axis.
type Point struct {
	Name string   `json:"name"`
	Set  []string `json:"set"`
}

// Figure is how a part is drawn: a metric over an axis, with one line for each point of another. The axes beside these
// stand at the points that Where names, such as load=busy; without it, at their first.
type Figure struct {
	Kind  string `json:"kind"`
	X     string `json:"x"`
	Y     string `json:"y"`
	By    string `json:"by"`
	Where string `json:"where"`
	Title string `json:"title"`
	LogY  bool   `json:"log_y"`
}

// Claim is one thing that a note says, or that its numbers imply.
type Claim struct {
	Name  string `json:"name"`
	Says  string `json:"says"`
	Check string `json:"check"` // see decide_claims_by_metric_expressions.go; empty: nothing here can decide it
	// Shows is the figures that decide it: text with expressions in braces.
	Shows   string  `json:"shows"`
	Because string  `json:"because"`
	Expect  Verdict `json:"expect"`
}

// Verdict is what became of a claim.
type Verdict string

// The verdicts.
const (
	Holds       Verdict = "holds"
	DoesNotHold Verdict = "does_not_hold"
	Undecided   Verdict = "cannot_be_decided"
)

// Text is the verdict for people.
func (v Verdict) Text() string { return strings.ReplaceAll(string(v), "_", " ") }

// Cell is one combination of points, ready to be played.
type Cell struct {
	At      []Place
	Setting Setting
	Trace   *arrivals.Trace // of the process trace
	Setup   *sim.Setup      // of a pipeline; then the rest of the setting is not used
}

// Place is where a cell stands on one axis.
type Place struct {
	Axis  string `json:"axis"`
	Point string `json:"point"`
}

// Setting is what a cell is made of: arrivals and engines, or a pipeline.
type Setting struct {
	Arrivals arrivals.Arrivals `json:"arrivals"`
	Engines  int               `json:"engines"`
	Engine   Engine            `json:"engine"`
	Dispatch Dispatch          `json:"dispatch"`
	Assign   Assign            `json:"assign"`
	Lock     bool              `json:"lock"`
	Told     Told              `json:"told"`
	// What the scheduler is told of lengths may be predicted, or wrong; bins may end where they serve best.
	Prediction Prediction `json:"prediction"`
	ToldBeside float64    `json:"told_beside"`
	BinEnds    BinEnds    `json:"bin_ends"`
	Scheduler  Scheduler  `json:"scheduler"`

	SLO     rollout.Duration `json:"slo"`
	Horizon rollout.Duration `json:"horizon"`
	Setup   string           `json:"setup"`
	// Scaling is of a pipeline's engines; without a target there are as many as the setup says.
	Scaling Scaling `json:"scaling"`
}

// Dispatch is the service's rules, and those of engines that batch statically, which it does not have.
type Dispatch struct {
	runspec.Dispatch
	Batching staticbatch.Rules `json:"batching"`
}

// Assign says who chooses the engine of a request.
type Assign string

// The ways; the empty one is AssignFree.
const (
	AssignFree  Assign = "scheduler" // the scheduler, when an engine has room
	AssignHash  Assign = "hash"      // a hash of the prompt when it arrives: requests wait for that engine
	AssignBins  Assign = "bin"       // the engines of the bin of its length
	AssignCalls Assign = "call"      // calls in turn when they arrive; only requests of one call share a batch
)

// Told says what the scheduler is told of a request's length.
type Told string

// The ways; the empty one is ToldLengths.
const (
	ToldLengths    Told = "lengths" // the true ones
	ToldNothing    Told = "nothing"
	ToldPrediction Told = "prediction" // what a predictor says that knows the prompt alone
)

// Engine is how an engine works.
type Engine struct {
	Batching       string  `json:"batching"`
	Profile        string  `json:"profile"`     // of continuous batching
	TimeFactor     float64 `json:"time_factor"` // multiplies the profile's times
	Time           Time    `json:"time"`        // of whole batches
	OutputOnly     bool    `json:"output_only"`
	Variation      float64 `json:"variation"`
	Workers        int     `json:"workers"`
	Cores          float64 `json:"cores"`
	CoresPerWorker float64 `json:"cores_per_worker"`
	Contention     float64 `json:"contention"`
}

// The ways of batching.
const (
	WholeBatches = "whole"
	Continuous   = "continuous"
)

// Time is how long a whole batch takes: a formula, or times that were measured.
type Time struct {
	PerBatch        rollout.Duration      `json:"per_batch"`
	PerRequest      rollout.Duration      `json:"per_request"`
	PerToken        rollout.Duration      `json:"per_token"`
	PerRequestToken rollout.Duration      `json:"per_request_token"`
	Growth          float64               `json:"growth"`
	Measured        []wholebatch.Measured `json:"measured"`
	Source          string                `json:"source"`
}
