package store

// DefaultKind is the bounds of a kind of facts, unless others are set.
func DefaultKind(kind string) KindLimit { return Limits{}.withDefaults().of(kind) }

// Earlier reports whether an event's id is before another's.
func Earlier(a, b string) bool { return earlier(a, b) }
