package supply

import (
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Seen is the input of one look.
type Seen struct {
	At     time.Time
	Wanted int // engines of the pool, alive
	// Listed is the provider's list. ListFault says why there is none: then nothing is known of its engines.
	Listed    []provider.Instance
	ListFault string
	Members   []Member // of the fleet, that were bought
	// Removed lists the engines that operators recently took out of the fleet.
	Removed []rollout.EngineID
	// UnderWay are the engines for which a command is being performed; Results those that ended since the look before.
	UnderWay []rollout.EngineID
	Results  []Result
}

// Member is a bought engine as the fleet sees it.
type Member struct {
	ID    rollout.EngineID
	URL   string
	State enginestate.EngineState
	// Reason says why it is in the state, where it does not serve.
	Reason string
	Since  time.Time // of the state
	// Drain says that it is given nothing new, Recalled that what it has is dispatched elsewhere, and Leave that it
	// leaves the fleet.
	Drain, Recalled, Leave bool
	// Idle says that nothing was in flight at IdleAt, when it was looked at last.
	Idle   bool
	IdleAt time.Time
}

// Action is an action on an engine.
type Action string

// The actions. Each may be done again, whatever became of it before.
const (
	DoStart Action = "start" // ask the provider for it
	DoJoin  Action = "join"  // make it a member of the fleet, which ends a drain
	DoDrain Action = "drain" // give it nothing new
	DoStop  Action = "stop"  // have the provider end it
	DoLeave Action = "leave" // take it out of the fleet, at once
)

// Command asks for an action.
type Command struct {
	Do Action           `json:"do"`
	ID rollout.EngineID `json:"id"`
	// Of a join: where the engine is, and how many requests it may have at once; 0: the fleet's default.
	URL         string `json:"url,omitempty"`
	MaxInFlight int    `json:"max_in_flight,omitempty"`
	// Of a drain: the engine's requests are dispatched elsewhere.
	Recall bool `json:"recall,omitempty"`
}

// Result is the result of a command. Fault says why it may not have been carried out; empty: it was.
type Result struct {
	Do    Action           `json:"do"`
	ID    rollout.EngineID `json:"id"`
	Fault string           `json:"fault,omitempty"`
}
