package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/rollout"
)

// The exit codes of every millrace command.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitAuth        = 4
	ExitUnavailable = 5
	ExitProblem     = 6
	ExitTimeout     = 7
	// ExitConfiguration is sysexits' EX_CONFIG. Go's panics end with 2, and those are worth another start.
	ExitConfiguration = 78
	ExitInterrupted   = 130
)

// usageError is a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Usage is a command line that cannot be meant.
func Usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// coded is an error whose exit code is known where it comes from.
type coded struct {
	error
	code int
}

func (e *coded) Unwrap() error { return e.error }

// WithCode gives an error its exit code, where it does not end as its kind does.
func WithCode(err error, code int) error { return &coded{err, code} }

// errProblem ends diagnose --exit-code when something slows the run down.
var errProblem = WithCode(errors.New("the diagnosis found a problem"), ExitProblem)

// ExitCode is the exit code for how a command ended.
func ExitCode(err error) int {
	var wrong *usageError
	var unavailable *apiclient.Unreachable
	var refused *apiclient.Problem
	var known *coded
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &wrong):
		return ExitUsage
	case errors.As(err, &refused):
		return refusalCode(refused.Status)
	case rollout.Refused(err, rollout.NoSuchStep): // of a record, which no server was asked for
		return ExitNotFound
	case errors.As(err, &unavailable), errors.Is(err, context.DeadlineExceeded):
		return ExitUnavailable
	}
	return ExitError
}

// refusalCode is the exit code for a refusal with an HTTP status.
func refusalCode(status int) int {
	switch status {
	case http.StatusNotFound:
		return ExitNotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return ExitAuth
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return ExitUnavailable
	}
	return ExitError
}
