package telemetry

import (
	"encoding/json"
	"maps"
	"slices"
)

// Body is what happened. The set is closed. A new kind of event is one type: its fields, its kind, its row. Without
// one of them it is no Body and does not compile as one, and go-check-sumtype names every switch that leaves it out.
//
//sumtype:decl
type Body interface {
	// kind is what fact or sample returned for the type; nothing else makes one.
	kind() *kind
	// row writes the body's fields into a flat row.
	row(Row)
}

// kind is what is known of a type of body.
type kind struct {
	name   string
	sample bool
	decode func([]byte) (Body, error)
}

// kinds is all of them by name. It is complete before anything runs.
var kinds = map[string]*kind{}

// KindNames are the names of the kinds that this version knows, in order.
func KindNames() []string { return slices.Sorted(maps.Keys(kinds)) }

// Sample reports whether events of a kind are samples. Of a kind that only another version of the program knows it is
// not known, and it counts as a fact.
func Sample(name string) bool {
	k, known := kinds[name]
	return known && k.sample
}

// KindOf is the name of the kind of events that have such a body.
func KindOf(b Body) string { return b.kind().name }

// fact declares a kind of which every event must survive.
func fact[T Body](name string) *kind { return declare[T](name, false) }

// sample declares a kind of which any one event may be lost.
func sample[T Body](name string) *kind { return declare[T](name, true) }

func declare[T Body](name string, sample bool) *kind {
	if _, taken := kinds[name]; taken {
		panic("telemetry: two kinds of event are named " + name)
	}
	k := &kind{name: name, sample: sample, decode: func(b []byte) (Body, error) {
		var body T
		err := json.Unmarshal(b, &body)
		return body, err
	}}
	kinds[name] = k
	return k
}
