// Package provider gets engines and gives them back: processes on this host, an operator's own commands, pods of
// Kubernetes. A Provider starts one engine, stops one and lists those that it has started; it decides nothing. Package
// scaling decides how many there are, package supply which ones, and the fleet sees whether an engine serves.
//
// Engines outlive their starter: every provider finds its engines again after a crash of everything else.
//
// Start reading at Provider.
package provider

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Provider starts and stops engines. Its methods may be called concurrently, by several processes, and again with the
// same arguments when an answer was lost. After an error it is not known whether the call had an effect. Where people
// can fix the cause (a quota, a credential, a template), the error says how.
type Provider interface {
	// Start asks for an engine under an id, and returns when the order is taken, which is before the engine serves. An
	// engine that is there already under the id is left as it is.
	Start(ctx context.Context, id rollout.EngineID) error
	// Stop ends an engine, whatever its state, and forgets it. One that is not there is no error. The caller has drained
	// it.
	Stop(ctx context.Context, id rollout.EngineID) error
	// List lists by id the engines that this deployment has started and not stopped, including those that ended by
	// themselves, and no engine of others.
	List(ctx context.Context) ([]Instance, error)
}

// Instance is one engine as its provider sees it.
type Instance struct {
	ID  rollout.EngineID `json:"id"`
	URL string           `json:"url,omitempty"` // http://host:port, without /v1; empty: not known yet
	// State is ordered, running, stopping or failed. Running says that its process runs, not that it serves.
	State enginestate.EngineState `json:"state"`
	// Since is when it was asked for.
	Since time.Time `json:"since,omitzero"`
	// Reason says why it is still pending, or has failed, in the provider's words.
	Reason string `json:"reason,omitempty"`
	// LeavesAt is when its machine will be taken away, where the provider was told (spot capacity, an eviction).
	LeavesAt time.Time `json:"leaves_at,omitzero"`
	// MaxInFlight is how many requests it may have at once; 0: the fleet's default.
	MaxInFlight int `json:"max_in_flight,omitempty"`
}
