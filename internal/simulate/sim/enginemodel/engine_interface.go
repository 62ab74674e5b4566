// Package enginemodel is how long inference engines take: continuous batching as vLLM does it, or a given time for each
// call; and hardware profiles, which are data with a source for each number. Engines are pure: time is an argument, and
// the same calls give the same answers.
//
// Start reading at Engine.
package enginemodel

import "time"

// Call is one request at an engine.
type Call struct {
	ID      uint64
	Adapter string // empty: the base model
	Prompt  int    // tokens
	Output  int    // tokens; at least 1
	// Shared is the leading tokens that other calls have, too, from short to long; nil: none. The engine keeps it until
	// the call has ended. A cached prefix serves calls of the same adapter only.
	Shared []Prefix
}

// Prefix is a run of leading tokens that all calls with the same Key begin with. It may reach beyond the prompt into
// the output, for calls whose prompt goes on from an earlier call's answer. Calls that share a longer prefix list
// every shorter one as well: {system prompt, 300}, {this game so far, 420}.
type Prefix struct {
	Key    uint64
	Tokens int // from the start of the prompt
}

// Event is something that happened to a call, or an adapter that was loaded.
type Event struct {
	At     time.Duration
	ID     uint64
	Kind   EventKind
	Cached int // prompt tokens found in the prefix cache, when Ended
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	Ended  EventKind = iota // the call's last token is there
	Loaded                  // the adapter load that was asked for under this ID is done
)

// Engine is one engine in virtual time. Times must not go back from call to call. After every call its Next may have
// changed.
type Engine interface {
	// Submit gives the engine calls that came together: of an engine that batches by whole batches they are one batch.
	// An error says that a call could never run; then none was taken.
	Submit(now time.Duration, calls []Call) error
	// Abort takes a call out; false: it was not there.
	Abort(now time.Duration, id uint64) bool
	// Load brings an adapter into memory.
	Load(now time.Duration, id uint64, adapter string)
	// SetSlow multiplies the time of work that is yet to begin.
	SetSlow(now time.Duration, factor float64)
	// Advance reports what happened up to now, in order of time. The slice is valid until the next call.
	Advance(now time.Duration) []Event
	// Next is when Advance will next have something to report; false: the engine is idle.
	Next() (at time.Duration, ok bool)
	// Load of the engine now, and counters since the start.
	Stats() Stats
}

// Stats is an engine's load and its counters.
type Stats struct {
	Running, Waiting int   // calls
	KV               int   // tokens of the running calls
	KVRoom           int   // tokens that there is memory for; 0: no such bound
	Prompt, Cached   int64 // prompt tokens of calls whose prefill ended, and those of them found in the prefix cache
	Output           int64 // tokens generated
	Busy             time.Duration
}
