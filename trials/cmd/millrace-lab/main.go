// Command millrace-lab develops, breaks and measures Millrace. Users of the service need none of it. It starts the
// binary millrace that lies beside it, or another one that --millrace names. docs/trials.md says what each command is
// for. Start reading at newRootCommand.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/kit/termtext"
	"github.com/millrace/millrace/internal/process/connections"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	connections.SilenceRedis()
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// environment is what commands need of the process around them.
type environment struct {
	stdout io.Writer // data
	stderr io.Writer // everything said to a person
	http   *http.Client
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand(environment{stdout: stdout, stderr: stderr, http: &http.Client{}})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "millrace-lab:", termtext.Block(err.Error()))
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func newRootCommand(env environment) *cobra.Command {
	root := &cobra.Command{
		Use:           "millrace-lab",
		Short:         "Trials of Millrace: break it, measure it, and imitate what it speaks to",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	bench := &cobra.Command{Use: "bench", Short: "Measure what the service costs, part by part"}
	bench.AddCommand(newBenchTurnCommand(env), newBenchScaleCommand(env), newBenchMemoryCommand(env),
		newBenchBufferCommand(env), newBenchRestartCommand(env))
	root.AddCommand(bench, newChaosCommand(env), newTrainerCommand(env), newProgramCommand(env),
		newEnvironmentCommand(env), newIsolationCommand(env),
		newExperimentCommand(env), newPredictCommand(env), newReplayDispatchCommand(env), newAxiomCommand(env))
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v; see --help", err) })
	return root
}

// usageError is a command line that cannot be meant.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// say tells a person something.
func (e environment) say(format string, args ...any) {
	fmt.Fprintln(e.stderr, termtext.Block(fmt.Sprintf(format, args...)))
}
