package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"
	"github.com/millrace/millrace/internal/kit/termtext"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// Style is the look of a line, where there are colours. A style alone never carries information.
type Style int

// The styles.
const (
	Plain Style = iota
	Title
	Head
	Dim
	Warn
	Bad
	Cursor
)

// Line is one line of the screen.
type Line struct {
	Text  string
	Style Style
}

// smallest is the screen that something can be shown on.
const (
	smallestWidth  = 40
	smallestHeight = 10
)

// View is the screen: as many lines as it is high, none wider than it is.
func (m *Model) View() []Line {
	if m.width < smallestWidth || m.height < smallestHeight {
		return m.fit([]Line{{fmt.Sprintf("%d x %d is too small: make it %d x %d", m.width, m.height, smallestWidth,
			smallestHeight), Plain}})
	}
	lines := m.head()
	foot := m.foot()
	room := m.height - len(lines) - len(foot)
	lines = append(lines, m.body(room)...)
	if len(lines) > m.height-len(foot) {
		lines = lines[:m.height-len(foot)]
	}
	for len(lines) < m.height-len(foot) {
		lines = append(lines, Line{})
	}
	return m.fit(append(lines, foot...))
}

// fit makes lines harmless and cuts them to the width.
func (m *Model) fit(lines []Line) []Line {
	for i := range lines {
		lines[i].Text = strings.TrimRight(termtext.Cut(termtext.Line(lines[i].Text), m.width), " ")
	}
	return lines
}

// head says what is looked at, and whether it is up to date.
func (m *Model) head() []Line {
	right := "not read yet"
	style := Title
	switch {
	case !m.lost.IsZero():
		lost := Line{fmt.Sprintf("THE SERVER DOES NOT ANSWER since %s (%s): waiting for it. %s", m.lost.Format(time.TimeOnly),
			tablerow.Span(m.now.Sub(m.lost)), firstLine(m.why)), Bad}
		return []Line{{m.title(), style}, lost}
	case m.Read():
		right = m.now.Format(time.TimeOnly)
	}
	left := termtext.Cut(m.title(), m.width-termtext.Width(right)-2)
	pad := max(1, m.width-termtext.Width(left)-termtext.Width(right))
	return []Line{{left + strings.Repeat(" ", pad) + right, style}}
}

func (m *Model) title() string {
	parts := []string{"millrace top", cmp.Or(m.name, m.server)}
	switch m.at() {
	case overview:
		if m.unknown {
			break
		}
		ready, going := 0, 0
		for i := range m.runs {
			going += 1 - over(&m.runs[i])
		}
		for i := range m.engines {
			if m.engines[i].State == enginestate.EngineReady {
				ready++
			}
		}
		parts = append(parts, fmt.Sprintf("%d/%d runs go on, %d/%d engines ready", going, len(m.runs), ready, len(m.engines)))
	case oneRun:
		parts = append(parts, "run "+string(m.of))
	case oneStep:
		parts = append(parts, fmt.Sprintf("run %s, step %d", m.of, m.step))
	case help:
		parts = append(parts, "keys")
	}
	return strings.Join(parts, "  ")
}

// fleetText is what scaling wants and why.
func fleetText(f *supply.View) string {
	if f.Trouble != "" {
		return tablerow.Fleet(f) + ". The provider is in trouble: " + firstLine(f.Trouble)
	}
	return tablerow.Fleet(f) + ". " + firstLine(f.Why)
}

// foot is the question or message, and the keys.
func (m *Model) foot() []Line {
	said := Line{m.notice, Warn}
	switch {
	case m.asking != nil:
		said = Line{m.asking.question(), Warn}
	case m.typing:
		said = Line{"filter: " + m.list().filter + "_", Warn}
	case m.hasList() && m.list().filter != "" && m.notice == "":
		said = Line{"only what has " + m.list().filter + "; esc shows all", Dim}
	case m.hasList() && m.notice == "":
		said = m.detail()
	}
	return []Line{said, {m.keys(), Dim}}
}

// detail is the last cell of the row at the cursor, which has little room in the list.
func (m *Model) detail() Line {
	rows, l := m.rows(m.pane()), m.list()
	if l.cursor >= len(rows) || m.pane() == stepsPane {
		return Line{}
	}
	if text := rows[l.cursor].cells[len(rows[l.cursor].cells)-1]; text != "" {
		return Line{rows[l.cursor].cells[0] + ": " + text, rows[l.cursor].style}
	}
	return Line{}
}

// keys are those of the screen, the ones that are needed most first.
func (m *Model) keys() string {
	switch m.at() {
	case overview:
		return "enter open  tab engines/runs  / filter  s sort  p pause  ? help  q quit"
	case oneRun:
		return "enter open  tab steps/games  / filter  s sort  p pause  esc back  ? help  q quit"
	case oneStep, help:
	}
	return "up down scroll  esc back  q quit"
}

// body is what stands between head and foot.
func (m *Model) body(room int) []Line {
	switch m.at() {
	case overview:
		return m.overview(room)
	case oneRun:
		top := m.runSummary()
		p := m.pane()
		top = append(top, Line{}, Line{m.paneTitle(p), Head})
		return append(top, m.pick(p, room-len(top), true)...)
	case oneStep:
		return m.scrolled(m.stepText(), room)
	case help:
	}
	return m.scrolled(helpText, room)
}

// wrongLines is what is wrong with what all runs share, a line a cause.
func (m *Model) wrongLines() (lines []Line) {
	const most = 4
	for i, t := range m.wrong {
		if i == most {
			return append(lines, Line{fmt.Sprintf("and %d more: millrace status", len(m.wrong)-most), Dim})
		}
		style := map[diagnosis.Severity]Style{diagnosis.SeverityStuck: Bad, diagnosis.SeveritySlow: Warn}[t.Level]
		text := fmt.Sprintf("%-6s %s", strings.ToUpper(string(t.Level)), t.What)
		if t.Advice != "" {
			text += "; to do: " + t.Advice
		}
		lines = append(lines, Line{text, style})
	}
	return lines
}

// overview is runs above engines, below what is wrong with both. The one that keys move in has the more room if both do
// not fit.
func (m *Model) overview(room int) []Line {
	const least = 4 // title, heading and two rows
	lines := m.wrongLines()
	room -= len(lines)
	runs, engines := len(m.rows(runsPane))+2, len(m.rows(enginesPane))+2
	room-- // between them
	if runs+engines > room {
		if m.pane() == runsPane {
			engines = max(least, min(engines, room-runs), room/3)
			runs = room - engines
		} else {
			runs = max(least, min(runs, room-engines), room/3)
			engines = room - runs
		}
	}
	lines = append(lines, Line{m.paneTitle(runsPane), Head})
	lines = append(lines, m.pick(runsPane, runs-1, m.pane() == runsPane)...)
	lines = append(lines, Line{}, Line{m.paneTitle(enginesPane), Head})
	return append(lines, m.pick(enginesPane, engines-1, m.pane() == enginesPane)...)
}

// paneTitle names a list, and how it is ordered.
func (m *Model) paneTitle(p pane) string {
	name := [panes]string{"Runs", "Engines", "Steps", "Games"}[p]
	l := m.lists[p]
	text := fmt.Sprintf("%s by %s", name, orders(p)[l.sort%len(orders(p))])
	if l.reversed {
		text += ", turned round"
	}
	if p == enginesPane && m.fleet != nil {
		text += "   " + fleetText(m.fleet)
	}
	if p == stepsPane {
		text += "   " + barLegend
	}
	if p == gamesPane && m.games != nil && m.games.Total > len(m.games.Games) {
		text += fmt.Sprintf(", the first %d of %d", len(m.games.Games), m.games.Total)
	}
	return text
}

// pick is a list as a table of so many lines, around its cursor.
func (m *Model) pick(p pane, room int, focused bool) []Line {
	rows := m.rows(p)
	if len(rows) == 0 {
		return []Line{{"  " + m.empty(p), Dim}}
	}
	t := table.New(columns(p)...)
	for _, r := range rows {
		t.Row(r.cells...)
	}
	var b strings.Builder
	_ = t.Write(&b, m.width-2) // a strings.Builder takes everything
	text := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	l := &m.lists[p]
	lines := []Line{{"  " + text[0], Head}}
	shown := max(1, room-1)
	cursor := min(l.cursor, len(rows)-1)
	l.top = max(0, min(l.top, cursor, len(rows)-1))
	if cursor >= l.top+shown {
		l.top = cursor - shown + 1
	}
	l.top = max(0, min(l.top, len(rows)-shown))
	for i := l.top; i < min(len(rows), l.top+shown); i++ {
		line := Line{"  " + text[1+i], rows[i].style}
		if i == cursor && focused {
			line = Line{"> " + text[1+i], Cursor}
		}
		lines = append(lines, line)
	}
	return lines
}

// empty is what stands for a list with nothing in it.
func (m *Model) empty(p pane) string {
	if m.lists[p].filter != "" {
		return "nothing has " + m.lists[p].filter
	}
	unread := map[pane]bool{runsPane: m.readAt.IsZero(), enginesPane: m.readAt.IsZero(), stepsPane: m.run == nil,
		gamesPane: m.games == nil}
	if unread[p] {
		return "not read yet"
	}
	if m.unknown {
		return "not known"
	}
	return [panes]string{"no runs; start one with: millrace run start -f SPEC",
		"no engines; add one with: millrace engine add URL", "no step was claimed yet", "no game is heard of yet"}[p]
}

// scrolled is a text from where it is scrolled to.
func (m *Model) scrolled(text []string, room int) []Line {
	var lines []string
	for _, line := range text {
		lines = append(lines, termtext.Broken(line, m.width)...)
	}
	m.scroll = max(0, min(m.scroll, len(lines)-room))
	var out []Line
	for _, line := range lines[m.scroll:min(len(lines), m.scroll+max(room, 0))] {
		out = append(out, Line{Text: line})
	}
	return out
}

// Snapshot is the whole screen as plain lines, for output that is no terminal.
func (m *Model) Snapshot() []string {
	was := m.height
	defer func() { m.height = was }()
	lines := []string{}
	for _, p := range []pane{runsPane, enginesPane, stepsPane} {
		m.height = max(m.height, len(m.rows(p))*2+30)
	}
	for _, line := range m.fit(slices.Concat(m.head(), m.body(m.height))) {
		if line.Style == Cursor {
			line.Text = " " + strings.TrimPrefix(line.Text, ">")
		}
		lines = append(lines, line.Text)
	}
	return lines
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
