package fleetsample

import (
	"time"

	"github.com/millrace/millrace/internal/engine/capacity"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/terms"
)

// memory is the state that one sample leaves for the next, bounded by the number of models and runs. Its zero value has
// seen nothing.
type memory struct {
	At   time.Time `json:"at,omitzero"`    // of the sample
	Work string    `json:"work,omitempty"` // the newest stretch of the engines' work that was read
	// Crowded is the share of the engines' time in which they had more than they take at once.
	Crowded float64 `json:"crowded,omitempty"`
	// Models has the work of each base model's engines; Runs has the active runs.
	Models map[string]modelMemory        `json:"models,omitempty"`
	Runs   map[rollout.RunName]runMemory `json:"runs,omitempty"`
	// Curve is how the engines slow down with their load, as far as it was seen at FittedAt; nil: it was not.
	Curve    *capacity.Curve `json:"curve,omitempty"`
	FittedAt time.Time       `json:"fitted_at,omitzero"`
}

// modelMemory is the work of one base model's engines. Sum begins with the memory.
type modelMemory struct {
	Sum  terms.Counters `json:"sum"`
	Rate terms.Fleet    `json:"rate"`
	// InFlight is the requests at them by the workers' account, at the end of the window.
	InFlight int `json:"in_flight,omitempty"`
	// RunningSec and WaitingSec are those of their requests, of late.
	RunningSec float64 `json:"running_sec,omitempty"`
	WaitingSec float64 `json:"waiting_sec,omitempty"`
}

// runMemory is what is known of one run.
type runMemory struct {
	Terms   terms.Run    `json:"terms"`
	Next    rollout.Step `json:"next"`              // the first step that was not completed
	After   string       `json:"after,omitempty"`   // the newest event that was read
	LastEnd time.Time    `json:"last_end,omitzero"` // of its newest completed step
	Claims  []claim      `json:"claims,omitempty"`  // the newest, in order
	// Unserved is when no engine served the run's model last.
	Unserved time.Time `json:"unserved,omitzero"`
}

// claim is how many groups a batch had, and how many had been dropped until then.
type claim struct {
	Step    rollout.Step `json:"step"`
	Groups  int          `json:"groups"`
	Dropped int64        `json:"dropped"`
}
