package fleetsample

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling/terms"
)

// Memory is what one sample leaves for the next. It is bounded by the engines and runs that there are. Its zero value
// has seen nothing.
type Memory struct {
	At   time.Time `json:"at,omitzero"`    // of the sample
	Work string    `json:"work,omitempty"` // the newest stretch of the engines' work that was read
	// Models is what engines of each base model do, and Runs what is known of each run that is not over.
	Models map[string]*modelMemory        `json:"models,omitempty"`
	Runs   map[rollout.RunName]*runMemory `json:"runs,omitempty"`
	Served map[rollout.EngineID]bool      `json:"served,omitempty"` // engines whose cold start was seen
	Cold   []float64                      `json:"cold,omitempty"`   // s, of the newest engines, without their loads
	// InFlight is the requests at engines by the workers' account.
	InFlight int `json:"in_flight,omitempty"`
	// Saturation is as it was fitted at FittedAt.
	Saturation float64   `json:"saturation,omitempty"`
	FittedAt   time.Time `json:"fitted_at,omitzero"`
}

// modelMemory is what the engines of one base model have done.
type modelMemory struct {
	Sum  terms.Counters `json:"sum"`
	Rate terms.Fleet    `json:"rate"`
}

// runMemory is what is known of one run.
type runMemory struct {
	Terms terms.Run    `json:"terms"`
	Next  rollout.Step `json:"next"`            // the first step whose record was not read yet
	After string       `json:"after,omitempty"` // the newest event that was read
	// LastEnd is when its newest completed step ended.
	LastEnd time.Time `json:"last_end,omitzero"`
}
