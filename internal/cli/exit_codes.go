package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace/millrace/internal/apiclient"
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
	ExitInterrupted = 130
)

// ExitCodesHelp explains the exit codes, for the help of the root command.
const ExitCodesHelp = `Exit codes:
  0    done
  1    refused, or failed
  2    the command line cannot be meant
  3    no such run, engine or step
  4    no token, or a wrong one
  5    the service does not answer, or something behind it does not; the same command may succeed later
  6    diagnose --exit-code, or status --exit-code, found a problem
  130  interrupted`

// usageError is a command line that cannot be meant.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errDeployment ends status --exit-code when something is wrong.
var errDeployment = errors.New("something is wrong with the service")

// errProblem ends diagnose --exit-code when something slows the run down.
var errProblem = errors.New("the diagnosis found a problem")

// ExitCode is the exit code for how a command ended.
func ExitCode(err error) int {
	var wrong *usageError
	var unavailable *apiclient.Unreachable
	var refused *apiclient.Problem
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &wrong):
		return ExitUsage
	case errors.Is(err, errProblem), errors.Is(err, errDeployment):
		return ExitProblem
	case errors.As(err, &refused):
		return refusalCode(refused.Status)
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
