package supply

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
)

// StateVersion is the form of State that this code writes. A state of a higher one is of newer code.
const StateVersion = 1

// State is all that a pool remembers. It is JSON.
type State struct {
	Version int `json:"version"`
	// Looked says that the provider's engines were seen once. Those that are there at that time are the pool's: it
	// begins where an earlier one was lost.
	Looked bool `json:"looked,omitempty"`
	// Started is how many ids were given out. An id is never given twice.
	Started int     `json:"started"`
	Engines []Owned `json:"engines,omitempty"` // in the order in which they were asked for
	// ColdStarts are those of the newest engines that came to serve, in seconds.
	ColdStarts []float64 `json:"cold_starts,omitempty"`
	// Failures is how many starts in a row came to nothing; nothing is started before RetryAt.
	Failures int       `json:"failures,omitempty"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
	// Trouble is why the provider does not do what it is asked for, since TroubleSince; empty: it does.
	Trouble      string    `json:"trouble,omitempty"`
	TroubleSince time.Time `json:"trouble_since,omitzero"`
}

// Owned is an engine of the pool, with what the pool remembers of it beside what it tells.
type Owned struct {
	Engine
	Cause   Cause `json:"cause,omitempty"`   // of its drain
	Adopted bool  `json:"adopted,omitempty"` // this pool has not asked for it
	Member  bool  `json:"member,omitempty"`  // of the fleet, when looked last
	// Listed says that its provider has listed it, and MissingSince from when on it does not.
	Listed       bool      `json:"listed,omitempty"`
	MissingSince time.Time `json:"missing_since,omitzero"`
	// RunsSince is when its provider was first seen to run it: it may have waited for a machine for long.
	RunsSince time.Time `json:"runs_since,omitzero"`
	// ServedAt is when it came to serve, for the first time; BrokenSince from when on it does not.
	ServedAt    time.Time `json:"served_at,omitzero"`
	BrokenSince time.Time `json:"broken_since,omitzero"`
	// AskedAt is when the provider was asked to start or to stop it last, in this phase, Asked how often it was, and Done
	// that it took the order.
	AskedAt time.Time `json:"asked_at,omitzero"`
	Asked   int       `json:"asked,omitempty"`
	Done    bool      `json:"done,omitempty"`
	// DrainsAt is when the fleet was first seen to give it nothing new, RecalledAt when to dispatch elsewhere what it has.
	DrainsAt   time.Time `json:"drains_at,omitzero"`
	RecalledAt time.Time `json:"recalled_at,omitzero"`
	// Stays says that it was to go and is wanted again, until the fleet has ended its drain.
	Stays bool `json:"stays,omitempty"`
}

// Cause is why an engine goes.
type Cause string

// The causes. An engine that goes because it is one too many stays if it is wanted again before it was stopped.
const (
	TooMany  Cause = "too_many"
	Leaves   Cause = "leaves"   // its machine is taken away, or it was ended from outside
	Operator Cause = "operator" // an operator drained it, or took it out of the fleet
	Broken   Cause = "broken"   // it does not serve
	Unknown  Cause = "unknown"  // the provider has it without a known order
)

// coldStartsKept is of how many engines the cold start is the mean.
const coldStartsKept = 8

// ColdStartSec is how long the newest engines took from the order to their first request, in the mean; 0: none has.
func (s *State) ColdStartSec() float64 {
	return stat.Sum(slices.Values(s.ColdStarts)) / float64(max(1, len(s.ColdStarts)))
}

// Count is the engines by state. Those that are being stopped are paid for, too, unless they never ran.
func (s *State) Count() scaling.Engines {
	var n scaling.Engines
	for i := range s.Engines {
		if !s.Engines[i].ran() {
			n.Unpaid++
		}
		switch s.Engines[i].State {
		case enginestate.EngineStarting:
			n.Starting++
		case enginestate.EngineReady:
			n.Ready++
		case enginestate.EngineDraining, enginestate.EngineStopping:
			n.Draining++
		}
	}
	return n
}

// ran reports whether the engine has, or had, a machine or a process of its own, as far as its provider and the fleet
// know.
func (e *Owned) ran() bool {
	switch e.Instance.State {
	case enginestate.EngineRunning, enginestate.EngineStopping:
		return true
	}
	return !e.ServedAt.IsZero()
}

// Told lists the engines as reported.
func (s *State) Told() []Engine {
	told := make([]Engine, len(s.Engines))
	for i := range s.Engines {
		told[i] = s.Engines[i].Engine
	}
	return told
}

// IDOf is the id of the n-th engine that was asked for.
func IDOf(n int) rollout.EngineID { return rollout.EngineID(fmt.Sprintf("scaled-%d", n)) }

// numberOf is the number that an id was made of; 0: it was not made here.
func numberOf(id rollout.EngineID) int {
	n := 0
	if _, err := fmt.Sscanf(string(id), "scaled-%d", &n); err != nil || IDOf(n) != id {
		return 0
	}
	return n
}
