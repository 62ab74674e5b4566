package rollout

import (
	"errors"
	"fmt"
)

// RefusalCode is why a request of a trainer or an operator was refused, as a small enum; the API
// makes each one a problem type.
type RefusalCode string

// The refusal codes.
const (
	NoSuchRun    RefusalCode = "no-such-run"
	NoSuchEngine RefusalCode = "no-such-engine"
	NoSuchStep   RefusalCode = "no-such-step"
	NotReady     RefusalCode = "not-ready"    // too few fresh groups; ask again
	Fenced       RefusalCode = "fenced"       // a newer trainer process has announced itself
	OutOfOrder   RefusalCode = "out-of-order" // a step too far ahead, or a version that skips one
	NotClaimed   RefusalCode = "not-claimed"  // a record for a step whose batch was never given out
	NotRetained  RefusalCode = "not-retained" // the batch was trained on and its data is gone
	BatchLost    RefusalCode = "batch-lost"   // the batch was granted, and Redis came back without it
	RunOver      RefusalCode = "run-over"
	Orphaned     RefusalCode = "run-lost"    // its workflow is gone; it can be resumed, stopped or deleted
	Conflict     RefusalCode = "conflict"    // contradicts what was said before under the same name
	Invalid      RefusalCode = "invalid"     // can never be accepted as it is
	Unavailable  RefusalCode = "unavailable" // something behind the service does not answer

	NotScaled RefusalCode = "not-scaled" // nobody scales the fleet

	QuotaExceeded RefusalCode = "quota-exceeded" // more than the service's configuration allows of something
)

// Refusal is a request answered with no. Text says what happened, why, and what to do next.
type Refusal struct {
	Code RefusalCode
	Text string
}

// Error is the text.
func (r *Refusal) Error() string { return r.Text }

// Refuse makes a Refusal.
func Refuse(code RefusalCode, format string, args ...any) error {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Behind refuses a version of a run whose workflow has yet to catch up with the account.
func Behind(run RunName, v PolicyVersion) error {
	return Refuse(Unavailable, "run %s knows of fewer versions than its account, and catches up first; "+
		"publish version %d again", run, v)
}

// Refused reports whether err is, or wraps, a refusal with this code.
func Refused(err error, code RefusalCode) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}
