package diagnosis

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Ledger says where every second of a run's steps went: UsefulSec and the losses add up to WallSec. The wait before
// step 0 is in none of them.
type Ledger struct {
	From  rollout.Step `json:"from_step"`
	To    rollout.Step `json:"to_step"`
	Steps int          `json:"steps"`
	// WallSec is the steps' wall time and the time between them, in which the trainer had no step.
	WallSec    float64 `json:"wall_seconds"`
	UsefulSec  float64 `json:"useful_seconds"`
	LostSec    float64 `json:"lost_seconds"`
	LostShare  float64 `json:"lost_share"` // of WallSec
	PrefillSec float64 `json:"prefill_seconds"`
	// Phases is UsefulSec by phase.
	Phases map[rollout.Phase]float64 `json:"useful_phase_seconds"`
	Losses []Loss                    `json:"losses"` // the largest first; none is negative
}

// Loss is time that went into something other than useful compute, by what it was.
type Loss struct {
	Cause CauseName     `json:"cause"`
	Phase rollout.Phase `json:"phase,omitempty"` // of the trainer, in which it was lost; empty between steps
	// Name is what the trainer called the phase, if by a name of its own.
	Name     string       `json:"name,omitempty"`
	Every    int          `json:"every_steps,omitempty"` // it comes back after so many steps; 0: at no fixed distance
	Steps    int          `json:"steps"`                 // in which it was lost
	First    rollout.Step `json:"first_step"`
	Last     rollout.Step `json:"last_step"`
	Worst    rollout.Step `json:"worst_step"` // the longest of its steps
	WorstSec float64      `json:"worst_step_seconds"`
	Sec      float64      `json:"seconds"`
	Share    float64      `json:"share"` // of the ledger's WallSec
	Text     string       `json:"text"`
	Wait     []WaitPart   `json:"wait_parts,omitempty"` // of starvation: where the last group was; they add up to Sec
}

// PerStepSec is what one of its steps lost.
func (l Loss) PerStepSec() float64 { return l.Sec / float64(max(l.Steps, 1)) }

// DriftOf is what drifts.
type DriftOf string

// What may drift.
const (
	DriftOfStep       DriftOf = "step"
	DriftOfCompute    DriftOf = "compute"    // the trainer's, which a wait hides
	DriftOfProduction DriftOf = "production" // the fleet's time for a batch, which the compute hides
)

// Drift is a time that grows or shrinks by about the same share with every step.
type Drift struct {
	Of      DriftOf       `json:"of"`
	From    rollout.Step  `json:"from_step"`
	To      rollout.Step  `json:"to_step"`
	PerStep float64       `json:"share_per_step"` // 0.01: each step takes 1 % longer than the one before
	LowPer  float64       `json:"low_share_per_step"`
	HighPer float64       `json:"high_share_per_step"`
	FromSec float64       `json:"from_seconds"` // the trend at From
	ToSec   float64       `json:"to_seconds"`   // the trend at To
	First   rollout.Phase `json:"first_cause"`  // the phase that moved most in its direction
	// Equal is the step at which the trainer's compute and the fleet's time for a batch will be the same if both go
	// on as they do: from there on the other of them is the step time. Absent if they never meet.
	Equal    *rollout.Step `json:"compute_equals_production_at_step,omitempty"`
	EqualSec float64       `json:"compute_equals_production_seconds,omitempty"`
}

// Older is what is kept of steps that are no longer looked at one by one.
type Older struct {
	To     rollout.Step `json:"to_step"` // the first step that is not in it
	Ledger Ledger       `json:"ledger"`
	Shifts []OldShift   `json:"shifts"` // the newest ones, in order
	// DroppedShifts is how many older ones are not kept.
	DroppedShifts int    `json:"dropped_shifts,omitempty"`
	Hours         []Hour `json:"hours"` // in order; the first may stand for many
	// Missing is how many of the steps before To are not in the ledger: no record, or one that cannot be.
	Missing int `json:"missing_steps,omitempty"`
}

// OldShift is a change of level among older steps.
type OldShift struct {
	At        rollout.Step  `json:"at_step"`
	Time      time.Time     `json:"at"`
	BeforeSec float64       `json:"before_seconds"`
	AfterSec  float64       `json:"after_seconds"`
	First     rollout.Phase `json:"first_cause"`
}

// Hour sums up the steps that were completed in an hour.
type Hour struct {
	Start     time.Time    `json:"start"`
	Hours     int          `json:"hours"` // that it stands for; 1 unless it is the oldest
	FirstStep rollout.Step `json:"first_step"`
	Steps     int          `json:"steps"`
	WallSec   float64      `json:"wall_seconds"`
	WaitSec   float64      `json:"wait_seconds"`
	UsefulSec float64      `json:"useful_seconds"`
}
