package dispatch

import (
	"fmt"
	"slices"
)

// Outcome is how one try of a request at one engine ended.
type Outcome uint8

// The outcomes. Served and Unfit end the request. After the others it is queued again, in its old place, or rejected.
const (
	Served Outcome = iota // a good answer
	// the engine refuses the request; if a second one does too, or there is none, the request is at fault
	Refused
	Unfit      // the request cannot be sent to any engine
	Overloaded // the engine has enough to do; not a failure
	Missing    // the engine does not have the model: it was restarted
	Aborted    // stopped half-way inside a healthy engine, by a pause
	Failed     // no good answer; some of these in a row open a breaker
	// the request's own deadline passed: the engine failed only if it gave no other sign of life
	TimedOut
	Broken // no good answer, and none to be expected: opens a breaker at once
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
