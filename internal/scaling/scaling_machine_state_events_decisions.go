package scaling

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// StateVersion is the form of State that this code writes. A state of a higher one is of newer code.
const StateVersion = 1

// State is the whole memory of a machine. It is bounded JSON, whose keeper need not understand it.
type State struct {
	Version int    `json:"version"`
	Config  Config `json:"config"`
	Wanted  int    `json:"wanted"`
	// Why is the newest sentence about the wanted number: why it is as it is, and is not another one.
	Why string `json:"why"`
	// Last is the newest decision, and Decisions how many there were.
	Last      *Decision `json:"last,omitempty"`
	Decisions int       `json:"decisions"`

	At       time.Time `json:"at,omitzero"`        // of the newest sample
	LastUp   time.Time `json:"last_up,omitzero"`   // more engines were wanted
	LastDown time.Time `json:"last_down,omitzero"` // fewer were
	Next     time.Time `json:"next,omitzero"`      // when the next change is possible
	Rest     float64   `json:"rest,omitempty"`     // s, between two changes at least
	Price    float64   `json:"price,omitempty"`    // $ per engine and hour, as it was heard last

	IdleSince time.Time `json:"idle_since,omitzero"` // no run is active since
	// Before is how many engines there were before the fleet was idle, for the run that used them.
	Before    int             `json:"before,omitempty"`
	BeforeRun rollout.RunName `json:"before_run,omitempty"`

	Ups   window     `json:"ups,omitzero"`    // what the newest samples would buy
	Downs window     `json:"downs,omitzero"`  // what they would keep
	Steps []runSteps `json:"steps,omitempty"` // of each run, the ends of its newest
	Trial *trial     `json:"trial,omitempty"` // the newest change, until its effect is measured
	// Ceiling and Floor are numbers of engines that a measurement ruled out to exceed, or to go below.
	Ceiling *bound `json:"ceiling,omitempty"`
	Floor   *bound `json:"floor,omitempty"`

	EngineSec float64 `json:"engine_sec"` // paid for so far
	Cost      float64 `json:"cost"`       // $, of these
}

// Code says in a word why the wanted number was changed.
type Code string

// The codes of decisions.
const (
	Configured Code = "configured" // an operator changed the bounds, the policy or the number
	Buys       Code = "buys"       // a run is capacity-bound
	GivesBack  Code = "gives_back" // fewer engines are enough
	Undone     Code = "undone"     // engines were bought, and steps did not become shorter
	Restored   Code = "restored"   // engines were given back, and steps became longer
	QueueUp    Code = "queue_up"   // more requests are outstanding than the engines are to have
	QueueDown  Code = "queue_down"
	Idles      Code = "idles" // no run is active
	Wakes      Code = "wakes" // one is active again
)

// Decision is a change of the wanted number of engines.
type Decision struct {
	No     int       `json:"no"` // from 1 on, without gaps
	At     time.Time `json:"at"`
	From   int       `json:"from"`
	To     int       `json:"to"`
	Code   Code      `json:"code"`
	Reason string    `json:"reason"`
	// Next is when the next change is possible, as far as is known now.
	Next time.Time `json:"next"`
	// Predicted is the change's predicted effect on the runs' steps, where known.
	Predicted []Effect `json:"predicted,omitempty"`
	// Cost is the fleet's cost so far, in $; 0: no price is known.
	Cost float64 `json:"cost,omitempty"`
}

// Effect is a change's predicted or measured effect on one run.
type Effect struct {
	Run          rollout.RunName `json:"run"`
	BeforeSec    float64         `json:"before_sec,omitempty"` // a step, before; 0: there was none
	PredictedSec float64         `json:"predicted_sec,omitempty"`
	MeasuredSec  float64         `json:"measured_sec,omitempty"` // 0: not yet
}

// bound is a number of engines that holds as long as the runs' work is about what it was.
type bound struct {
	Engines int     `json:"engines"`
	Work    float64 `json:"work"`
	Batch   float64 `json:"batch,omitempty"` // of all runs; 0: not known, and the work is compared
}

// grown is the share by which there is more work now, or less: below 0.
func (b *bound) grown(work, batch float64) float64 {
	was, is := b.Work, work
	if b.Batch > 0 && batch > 0 {
		was, is = b.Batch, batch
	}
	if was <= 0 {
		return is // more than none is more
	}
	return is/was - 1
}

// Event is what happens to a Machine.
//
//sumtype:decl
type Event interface{ isEvent() }

// Set is an operator's new configuration.
type Set struct {
	At     time.Time
	Config Config
}

func (Sample) isEvent() {}
func (Set) isEvent()    {}

// Command is what follows from an event. The wanted number itself is state: a driver that missed a command compares.
//
//sumtype:decl
type Command interface{ isCommand() }

// Change says that another number of engines is wanted from now on.
type Change struct{ Decision }

// Measured says what an earlier decision did.
type Measured struct {
	Decision int       `json:"decision"`
	At       time.Time `json:"at"`
	From     int       `json:"from"`
	To       int       `json:"to"`
	Effects  []Effect  `json:"effects"`
	Text     string    `json:"text"`
}

func (Change) isCommand()   {}
func (Measured) isCommand() {}
