package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/top"
	"github.com/millrace/millrace/internal/rollout"
)

func newTopCommand(d Deps) *cobra.Command {
	s := &session{Deps: d}
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:  "top [RUN]",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < fastestTop {
				return Usage("--every %v: use %v or more", every, fastestTop)
			}
			var run rollout.RunName
			if len(args) == 1 {
				if run = rollout.RunName(args[0]); run.ValidateID() != nil {
					return Usage("%v", run.ValidateID())
				}
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			if once || !terminal(s.Stdout) || s.Getenv("TERM") == "dumb" {
				return s.topOnce(cmd.Context(), c, run)
			}
			return s.topScreen(cmd.Context(), c, run, every)
		},
		ValidArgsFunction: s.completeRuns,
	}
	f := cmd.Flags()
	f.StringVar(&s.server, "server", "", "URL of the API (default $MILLRACE_SERVER, else "+apiclient.DefaultServer+")")
	f.DurationVar(&every, "every", time.Second, "time between two readings")
	f.BoolVar(&once, "once", false, "write the screen once, as plain lines, and end")
	return cmd
}

// fastestTop is the least time between two readings: the service samples its engines once a second.
const fastestTop = 250 * time.Millisecond

// plainWidth is how wide the screen is where nothing says how wide the output is.
const plainWidth = 240

// topOnce writes what the screen would show.
func (s *session) topOnce(ctx context.Context, c Client, run rollout.RunName) error {
	width := cmp.Or(s.width(), plainWidth)
	reader := newTopReader(c, s.now)
	m := top.New(c.Server(), run, width, 24, s.now())
	for _, command := range m.Start() {
		e := reader.do(ctx, command)
		if err := top.ErrorOf(e); err != nil {
			return errors.Unwrap(err)
		}
		m.Update(e)
	}
	_, err := fmt.Fprintln(s.Stdout, strings.Join(m.Snapshot(), "\n"))
	return err
}

// topScreen shows the screen until it is left.
func (s *session) topScreen(ctx context.Context, c Client, run rollout.RunName, every time.Duration) error {
	reader := newTopReader(c, s.now)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	screen := &topScreen{
		m: top.New(c.Server(), run, 80, 24, s.now()), every: every,
		do: func(command top.Command) tea.Cmd {
			return func() tea.Msg { return reader.do(ctx, command) }
		},
	}
	_, err := tea.NewProgram(screen, tea.WithContext(ctx), tea.WithInput(s.Stdin), tea.WithOutput(s.Stdout),
		tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("show the screen: %w", err)
	}
	return nil
}
