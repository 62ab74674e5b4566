package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/engine/dispatch/dispatchlog/logreplay"
	"github.com/millrace/millrace/internal/kit/units"
)

// errOtherDecisions ends a replay that did not bring what the log has.
var errOtherDecisions = errors.New("the scheduler decides otherwise than it did live")

func newReplayDispatchCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "replay-dispatch FILE...",
		Short: "Replay dispatch logs of live workers in virtual time; the decisions must be identical",
		Long: `Give every event of a dispatch log to the scheduler again, at the time that the log has for it, and compare what it commands with what
it commanded live. A worker writes such a log with --dispatch-log FILE; millrace dev passes the same flag on.

The first event that brings other commands is shown, and the exit code is 1. A log of another version of this program may
differ because the scheduler has changed since.`,
		Example: `  millrace dev --spec config/examples/tictactoe.yaml --exit --dispatch-log dispatch.log
  millrace-lab replay-dispatch dispatch.log`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			var errs []error
			for _, file := range files {
				errs = append(errs, replayDispatch(env, file))
			}
			return errors.Join(errs...)
		},
	}
}

func replayDispatch(env environment, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read dispatch log: %w", err)
	}
	defer f.Close() // it is only read
	began := time.Now()
	r, err := logreplay.Run(f)
	took := time.Since(began)
	if r.Events > 0 {
		fmt.Fprintf(env.stdout, "%s: %d events of %s, with %d requests and %d commands, replayed in %s\n", file, r.Events,
			units.Seconds(r.Span.Seconds()), r.Requests, r.Commands, units.Seconds(took.Seconds()))
	}
	switch {
	case errors.Is(err, logreplay.ErrNoEnd):
		fmt.Fprintf(env.stdout, "%s: the decisions up to there are identical\n", file)
		return fmt.Errorf("%s: %w", file, err)
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case r.Difference != nil:
		fmt.Fprint(env.stdout, difference(file, r.Difference))
		return fmt.Errorf("%s:%d: %w", file, r.Difference.Line, errOtherDecisions)
	}
	fmt.Fprintf(env.stdout, "%s: the decisions are identical\n", file)
	if r.Full {
		env.say("%s reached its bound before the worker ended: what came later is not in it", file)
	}
	return nil
}

// difference shows the first event that brought other commands.
func difference(file string, d *logreplay.Difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d: first difference, %s after the log began\n  event     %s\n", file, d.Line,
		units.Seconds(d.At.Seconds()), d.Event)
	list := func(name string, commands []dispatch.Command) {
		if len(commands) == 0 {
			fmt.Fprintf(&b, "  %-9s nothing\n", name)
		}
		for _, c := range commands {
			fmt.Fprintf(&b, "  %-9s %s %+v\n", name, strings.TrimPrefix(fmt.Sprintf("%T", c), "dispatch."), c)
		}
	}
	list("live", d.Recorded)
	list("replayed", d.Replayed)
	return b.String()
}
