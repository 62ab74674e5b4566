// Package loadprobe plans load probes of runs and judges them. A load probe holds a run's requests in flight to about
// half of what they were for a few steps. Engines that then generate as many tokens per second as before were
// saturated, however many free slots they had; engines that generate half as many had room.
//
// It is pure: step records in, a limit or an answer out. The run itself begins and ends the probe (package
// runmachine). Start reading at Choose, then Judge.
package loadprobe

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// Plan is a probe that would give information about a run.
type Plan struct {
	Limit    int           // requests in flight per engine while it lasts
	InFlight float64       // now, of this run, mean per engine
	For      time.Duration // at most: long enough for its steps, should they take far longer than now
}

// Bounds of a plan.
const (
	looked     = 3 // steps whose load is taken for the present one
	least      = 2 // requests in flight per engine that can be halved
	minFor     = 10 * time.Minute
	maxFor     = 6 * time.Hour
	stepsSlack = 10 // times as long as now may its steps take
)

// Choose plans a probe of so many steps from a run's latest step records, in order; it is refused where there is
// nothing to halve.
func Choose(run rollout.RunName, records []steprecord.StepRecord, steps int) (Plan, error) {
	done := slices.DeleteFunc(slices.Clone(records), func(r steprecord.StepRecord) bool { return !r.Done })
	if len(done) == 0 {
		return Plan{}, rollout.Refuse(rollout.Conflict,
			"no step of run %s is completed: what is in flight is not known yet; try again after the first", run)
	}
	done = done[max(0, len(done)-looked):]
	var requestSec, engineSec, wall float64
	for _, r := range done {
		f := r.Service.Fleet
		engineSec += f.Engines * f.WindowSec
		wall += r.Trainer.WallSec
		for _, g := range r.Service.Groups {
			requestSec += g.Usage.ExecSec
		}
	}
	if engineSec <= 0 {
		return Plan{}, rollout.Refuse(rollout.Conflict,
			"the latest steps of run %s hold no samples of its engines; see: millrace engine list", run)
	}
	n := requestSec / engineSec // Little's law
	if n < least {
		return Plan{}, rollout.Refuse(rollout.Conflict, "run %s has %.1f requests in flight per engine: there is nothing to "+
			"halve; engines so idle are not what it waits for", run, n)
	}
	within := time.Duration(stepsSlack * wall / float64(len(done)) * float64(steps+2) * float64(time.Second))
	return Plan{
		Limit: max(1, int(math.Floor(n/2))), InFlight: n, For: min(max(within, minFor), maxFor).Round(time.Second),
	}, nil
}

// Finding is the result of a probe.
type Finding string

// The findings.
const (
	Saturated Finding = "saturated" // fewer requests in flight, as many tokens: more engines help, more depth does not
	HasRoom   Finding = "has_room"  // tokens fall with the requests: more depth helps, more engines do not
	Between   Finding = "between"   // tokens fall, and less than the requests do: both help, each somewhat
	Undecided Finding = "undecided" // the load did not change, or there is too little to compare
)

// Load is the engines' work over some steps: means over wall time and ready engines.
type Load struct {
	Steps     int     `json:"steps"`
	Engines   float64 `json:"engines"`
	InFlight  float64 `json:"in_flight_per_engine"`
	InputTPS  float64 `json:"input_tps_per_engine"`
	OutputTPS float64 `json:"output_tps_per_engine"`
	StepSec   float64 `json:"step_seconds"`
}

// Answer is a probe's outcome.
type Answer struct {
	Finding Finding `json:"finding"`
	Before  Load    `json:"before"`
	During  Load    `json:"during"`
	// Elasticity is how far tokens per second follow a change of the load: 0 is not at all (saturated engines), 1 is
	// fully (engines with room). It is the logarithm of the tokens' ratio over that of the requests in flight.
	Elasticity float64 `json:"elasticity"`
}

// What a probe must show to decide.
const (
	lessLoad  = 0.85 // of the requests in flight at most, for the loads to be two
	saturated = 0.25 // elasticity up to which engines are called saturated
	hasRoom   = 0.75 // and from which on they have room
)

// Judge compares the steps of a probe with those before it, at most twice as many.
func Judge(p runstatus.LoadProbe, records []steprecord.StepRecord) Answer {
	var before, during []steprecord.StepRecord
	for _, r := range records {
		switch v := r.Service; {
		case v.GrantedAt.IsZero() || v.Fleet.WindowSec <= 0 || r.Step == 0: // the wait before step 0 is another load
		case v.GrantedAt.Before(p.Since):
			before = append(before, r)
		case r.Step >= p.FirstStep && r.Step <= p.LastStep:
			during = append(during, r)
		}
	}
	before = before[max(0, len(before)-2*max(len(during), 1)):]
	a := Answer{Finding: Undecided, Before: loadOf(before), During: loadOf(during)}
	if len(before) == 0 || len(during) == 0 || a.Before.InFlight <= 0 || a.During.InFlight <= 0 ||
		a.Before.tokens() <= 0 || a.During.tokens() <= 0 || a.During.InFlight > lessLoad*a.Before.InFlight {
		return a
	}
	a.Elasticity = math.Log(a.During.tokens()/a.Before.tokens()) / math.Log(a.During.InFlight/a.Before.InFlight)
	switch {
	case a.Elasticity <= saturated:
		a.Finding = Saturated
	case a.Elasticity >= hasRoom:
		a.Finding = HasRoom
	default:
		a.Finding = Between
	}
	return a
}

// tokens is all tokens per second: the mix of prompts and completions is the run's own before and during a probe.
func (l Load) tokens() float64 { return l.InputTPS + l.OutputTPS }

// loadOf is the means over steps, weighted by the time that their samples cover.
func loadOf(records []steprecord.StepRecord) Load {
	l := Load{Steps: len(records)}
	var window, engineSec, wall float64
	var completed int
	for _, r := range records {
		f := r.Service.Fleet
		window += f.WindowSec
		engineSec += f.Engines * f.WindowSec
		l.InFlight += f.InFlight * f.Engines * f.WindowSec
		l.InputTPS += f.InputTPS * f.WindowSec
		l.OutputTPS += f.OutputTPS * f.WindowSec
		if r.Done {
			wall += r.Trainer.WallSec
			completed++
		}
	}
	if engineSec > 0 {
		l.Engines = engineSec / window
		l.InFlight /= engineSec
		l.InputTPS /= engineSec
		l.OutputTPS /= engineSec
	}
	if completed > 0 {
		l.StepSec = wall / float64(completed)
	}
	return l
}
