package scaling

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Sample is the fleet and its runs over one window of time, the newest. Terms that are not known are 0.
type Sample struct {
	At      time.Time `json:"at"`  // the window's end
	Sec     float64   `json:"sec"` // its length
	Engines Engines   `json:"engines"`
	// ColdStartSec is how long the engines seen so far took from their start to their first request, in the mean of the
	// newest; 0: none was seen.
	ColdStartSec float64 `json:"cold_start_sec,omitempty"`
	// Adapters is how many an engine must load before it is of use, and LoadSec how long one takes.
	Adapters int     `json:"adapters,omitempty"`
	LoadSec  float64 `json:"load_sec,omitempty"`
	// Outstanding is the requests that are queued or running now.
	Outstanding int `json:"outstanding"`
	// Slots is how many requests an engine is given at once, SlotShare how much of that was in use, Queued how many
	// requests waited for a slot, and BusyShare how much of the engines' time had at least one request.
	Slots     int     `json:"slots,omitempty"`
	SlotShare float64 `json:"slot_share"`
	Queued    float64 `json:"queued"`
	BusyShare float64 `json:"busy_share,omitempty"`
	// Saturation is how near the engines are to doing no more, whatever their slots: 1 less the rise of their curve (see
	// package capacity), or the share of their time in which requests waited inside of them; 0: not known.
	Saturation float64 `json:"saturation,omitempty"`
	// Price is an engine's present cost, in $ per hour; 0: the configured one.
	Price float64 `json:"price,omitempty"`
	Runs  []Run   `json:"runs"` // that are not over
}

// Engines counts the fleet by state. What is lost is not counted: the driver replaces it.
type Engines struct {
	Starting int `json:"starting,omitempty"` // asked for, and not serving yet
	Ready    int `json:"ready"`
	Draining int `json:"draining,omitempty"` // finish what they have, and are paid for until then
	// Unpaid is how many of all these never ran: refused, or waiting for a machine.
	Unpaid int `json:"unpaid,omitempty"`
}

// Alive is the engines that are there to stay.
func (e Engines) Alive() int { return e.Starting + e.Ready }

// Paid is the engines that cost something.
func (e Engines) Paid() int { return max(0, e.Alive()+e.Draining-e.Unpaid) }

// Run is one run that uses the fleet.
type Run struct {
	Name   rollout.RunName `json:"name"`
	Paused bool            `json:"paused,omitempty"`
	// Priority decides who gets engines where not all can be had, the highest first; MaxEngines bounds what is bought for
	// the run; 0: nothing but the fleet's own bound.
	Priority   int `json:"priority,omitempty"`
	MaxEngines int `json:"max_engines,omitempty"`

	// C is the trainer's compute per step, P how long Engines engines with full slots take for one batch, and RD the
	// latency of a batch through engines that are not full, divided by the depth. All in seconds; 0: not known.
	C       float64 `json:"c,omitempty"`
	P       float64 `json:"p,omitempty"`
	RD      float64 `json:"rd,omitempty"`
	Engines float64 `json:"engines,omitempty"`
	Depth   int     `json:"depth,omitempty"` // batches outstanding
	// Batch is how much work a batch is, whatever the engines' pace, in a unit of no meaning but to compare; 0: not known.
	Batch float64 `json:"batch,omitempty"`

	Steps   int       `json:"steps"` // completed
	LastEnd time.Time `json:"last_end,omitzero"`
	// StarvedSec is for how long of the window the trainer waited, and Waits reports that it waits now.
	StarvedSec float64 `json:"starved_sec,omitempty"`
	Waits      bool    `json:"waits,omitempty"`
	ReadyDepth float64 `json:"ready_depth"` // batches ready now
}

// TrainerState describes in words what the run's trainer does.
func (r *Run) TrainerState() string {
	switch {
	case r.Paused:
		return "the run is paused"
	case r.Waits:
		return "waits"
	}
	return "works"
}

// valid reports whether the sample makes sense; an invalid one is not decided on.
func (s *Sample) valid() bool {
	numbers := []float64{s.Sec, s.ColdStartSec, s.LoadSec, s.SlotShare, s.Queued, s.BusyShare, s.Saturation,
		s.Price}
	for i := range s.Runs {
		r := &s.Runs[i]
		numbers = append(numbers, r.C, r.P, r.RD, r.Engines, r.Batch, r.StarvedSec, r.ReadyDepth)
	}
	for _, v := range numbers {
		if !(v >= 0 && v < math.MaxInt32) { // NaN and infinity are neither
			return false
		}
	}
	return !s.At.IsZero() && min(s.Engines.Starting, s.Engines.Ready, s.Engines.Draining, s.Outstanding) >= 0
}

// work is the run's work per step, in seconds of one engine with full slots.
func (r *Run) work() float64 { return r.P * r.Engines }

// active reports whether the run wants to play.
func (r *Run) active() bool { return !r.Paused }
