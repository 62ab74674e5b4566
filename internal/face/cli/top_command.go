package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
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
const plainWidth = 120

// topOnce writes what the screen would show.
func (s *session) topOnce(ctx context.Context, c Client, run rollout.RunName) error {
	width := s.width()
	if width == 0 {
		width = plainWidth
	}
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

// topScreen carries events to the state machine and its screen to the terminal.
type topScreen struct {
	m     *top.Model
	every time.Duration
	do    func(top.Command) tea.Cmd
}

func (t *topScreen) Init() tea.Cmd { return tea.Batch(t.commands(t.m.Start()), t.tick()) }

func (t *topScreen) tick() tea.Cmd {
	return tea.Tick(t.every, func(at time.Time) tea.Msg { return top.Ticked{At: at} })
}

// Update never waits: what takes time is a command, and its answer another message.
func (t *topScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return t, t.commands(t.m.Update(top.Key(msg.String())))
	case tea.WindowSizeMsg:
		return t, t.commands(t.m.Update(top.Resized{Width: msg.Width, Height: msg.Height}))
	case top.Ticked:
		return t, tea.Batch(t.commands(t.m.Update(msg)), t.tick())
	case top.Event:
		return t, t.commands(t.m.Update(msg))
	}
	return t, nil
}

func (t *topScreen) commands(commands []top.Command) tea.Cmd {
	var all []tea.Cmd
	for _, c := range commands {
		if _, quit := c.(top.Quit); quit {
			return tea.Quit
		}
		all = append(all, t.do(c))
	}
	return tea.Batch(all...)
}

// topStyles is how lines are shown where colours are; bubbletea leaves out what a terminal, or NO_COLOR, does not want.
var topStyles = map[top.Style]lipgloss.Style{
	top.Title:  lipgloss.NewStyle().Bold(true),
	top.Head:   lipgloss.NewStyle().Bold(true),
	top.Dim:    lipgloss.NewStyle().Faint(true),
	top.Warn:   lipgloss.NewStyle().Foreground(lipgloss.Yellow),
	top.Bad:    lipgloss.NewStyle().Foreground(lipgloss.Red).Bold(true),
	top.Cursor: lipgloss.NewStyle().Reverse(true),
}

func (t *topScreen) View() tea.View {
	var b strings.Builder
	for i, line := range t.m.View() {
		if i > 0 {
			b.WriteByte('\n')
		}
		if style, has := topStyles[line.Style]; has && line.Text != "" {
			b.WriteString(style.Render(line.Text))
			continue
		}
		b.WriteString(line.Text)
	}
	v := tea.NewView(b.String())
	v.AltScreen = true
	return v
}
