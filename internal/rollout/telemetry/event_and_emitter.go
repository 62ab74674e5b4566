// Package telemetry is the events that Millrace reports about itself, as typed values, and the interface that takes
// them. It ships nothing: internal/store/eventstore keeps events in Redis, and internal/observe/axiom sends them to
// Axiom. Emitting never blocks and never fails the work.
//
// An event flattens to one JSON object with a kind, a time, an id for deduplication and
// snake_case fields with units in their names. Start reading at Event and Emitter.
package telemetry

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// Emitter takes events. Emit must return at once; an event that cannot be kept is counted, not waited for.
type Emitter interface {
	Emit(Event)
}

// Teller keeps facts before it returns: what is told is not lost when the process ends. It is for who may wait, such as
// an activity, which is run again when it fails.
type Teller interface {
	Tell(context.Context, Event) error
}

// EmitterFunc makes a function an Emitter, and a Teller.
type EmitterFunc func(Event)

// Emit calls f.
func (f EmitterFunc) Emit(e Event) { f(e) }

// Tell calls f.
func (f EmitterFunc) Tell(_ context.Context, e Event) error {
	f(e)
	return nil
}

// Discard drops every event.
var Discard = EmitterFunc(func(Event) {})

// Event is one fact: when, about what, and a typed body.
type Event struct {
	At     time.Time
	Run    rollout.RunName  // empty for facts about the fleet
	Engine rollout.EngineID // empty when not about one engine
	// Key makes the event's id unique and repeatable: the same fact reported twice, say by a
	// retried activity, has the same id.
	Key  string
	Body Body
}

// Kind is the event's name in every sink.
func (e Event) Kind() string { return e.Body.kind().name }

// Droppable reports whether an event is a sample, of which any one may be lost, and not a fact, which must survive. A
// sample that tells something once and for all is a fact.
func (e Event) Droppable() bool {
	b, is := e.Body.(interface{ mustSurvive() bool })
	return e.Body.kind().sample && !(is && b.mustSurvive())
}
