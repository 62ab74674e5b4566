package cli

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/millrace/millrace/internal/face/top"
)

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
