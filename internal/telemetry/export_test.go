package telemetry

// KindCount is how many kinds of events there are.
func KindCount() int { return len(kinds) }
