package rollout

import (
	"errors"
	"fmt"
)

// FailureKind says who may do something about a failure.
type FailureKind string

// The failure kinds.
const (
	Retryable FailureKind = "retryable" // the same work may succeed elsewhere or later
	Permanent FailureKind = "permanent" // it never will: configuration, a bad adapter
	GameFault FailureKind = "game"      // the environment itself broke; another scenario may do
)

// Failure is an error with the reaction it deserves.
type Failure struct {
	Kind FailureKind
	Code Code
	Err  error
}

// Error is the wrapped error's text, led by the code.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Code, f.Err) }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Fail wraps err with its kind and code.
func Fail(kind FailureKind, code Code, err error) error {
	return &Failure{Kind: kind, Code: code, Err: err}
}

// KindOf is the kind of the first Failure in err's chain; other errors are retryable.
func KindOf(err error) FailureKind {
	var f *Failure
	if errors.As(err, &f) {
		return f.Kind
	}
	return Retryable
}
