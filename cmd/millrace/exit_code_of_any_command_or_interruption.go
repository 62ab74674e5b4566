package main

import (
	"context"
	"errors"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/process/connections"
)

// interrupted reports whether a command ended by Ctrl-C or SIGTERM, which is no fault and needs no message.
func interrupted(ctx context.Context, err error) bool {
	if errors.Is(err, errInterrupted) {
		return true
	}
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// errInterrupted ends a command that Ctrl-C or SIGTERM has ended; nothing more is said.
var errInterrupted = cli.WithCode(errors.New("interrupted"), cli.ExitInterrupted)

// usage is a command line that cannot be meant.
func usage(format string, args ...any) error { return cli.Usage(format, args...) }

// exitCode is the exit code for how a command ended: what the command line itself knows, and what only processes of the
// service end with.
func exitCode(err error) int {
	code := cli.ExitCode(err)
	switch {
	case code != cli.ExitError:
		return code
	case errors.Is(err, resources.ErrRefused):
		return cli.ExitAuth
	case errors.Is(err, connections.ErrNoAnswer):
		return cli.ExitUnavailable
	}
	return code
}
