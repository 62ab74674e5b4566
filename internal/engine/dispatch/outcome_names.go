package dispatch

import (
	"fmt"
	"slices"
)

// outcomeNames are the outcomes as texts, by their numbers.
var outcomeNames = []string{
	Served: "served", Refused: "refused", Unfit: "unfit", Overloaded: "overloaded", Missing: "missing", Aborted: "aborted",
	Failed: "failed", TimedOut: "timed_out", Broken: "broken",
}

// MarshalText is the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) {
	if int(o) >= len(outcomeNames) {
		return nil, fmt.Errorf("there is no outcome %d", o)
	}
	return []byte(outcomeNames[o]), nil
}

// UnmarshalText reads an outcome's name.
func (o *Outcome) UnmarshalText(text []byte) error {
	i := slices.Index(outcomeNames, string(text))
	if i < 0 {
		return fmt.Errorf("there is no outcome %q", text)
	}
	*o = Outcome(i)
	return nil
}
