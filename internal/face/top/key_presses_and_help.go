package top

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// key does what a key stands for.
func (m *Model) key(k string) []Command {
	if k == "ctrl+c" {
		return []Command{Quit{}}
	}
	if m.asking != nil {
		return m.confirm(k)
	}
	if m.typing {
		m.typeFilter(k)
		m.bound()
		return nil
	}
	m.notice = ""
	commands := m.command(k)
	m.bound()
	m.remember()
	return commands
}

// command is key for what is neither an answer to a question nor text.
func (m *Model) command(k string) []Command {
	switch k {
	case "q":
		return []Command{Quit{}}
	case "?", "h":
		if m.at() != help {
			m.screens = append(m.screens, help)
		}
	case "esc", "backspace", "left":
		m.back()
		return m.refresh()
	case "enter", "right":
		return m.open()
	case "tab", "shift+tab", "g":
		m.otherPane(k)
		return m.refresh()
	case "/":
		m.typing = m.hasList()
	case "s":
		m.resort()
		return m.refresh()
	case "r":
		if m.hasList() {
			m.list().reversed = !m.list().reversed
		}
		return m.refresh()
	case "p":
		m.askPause()
	default:
		m.move(k)
	}
	return nil
}

// hasList reports whether the screen has a list to move in.
func (m *Model) hasList() bool { return m.at() == overview || m.at() == oneRun }

// move moves the cursor, or a text.
func (m *Model) move(k string) {
	page := max(1, m.height-8)
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "ctrl+b": -page,
		"ctrl+f": page,
		"space":  page, "home": -1 << 30, "end": 1 << 30, "G": 1 << 30}[k]
	if m.hasList() {
		m.list().cursor += by
		return
	}
	m.scroll += by
}

// bound keeps cursors within their lists, and the rows that are shown around them.
func (m *Model) bound() {
	if m.hasList() {
		l := m.list()
		l.cursor = max(0, min(l.cursor, len(m.rows(m.pane()))-1))
	}
	m.scroll = max(0, m.scroll)
}

// remember notes the row under the cursor, so that the cursor follows it when rows come and go. At the first row it
// stays at the first row, where news appears.
func (m *Model) remember() {
	if !m.hasList() {
		return
	}
	l, rows := m.list(), m.rows(m.pane())
	l.at = ""
	if l.cursor > 0 && l.cursor < len(rows) {
		l.at = rows[l.cursor].cells[0]
	}
}

// follow puts the cursor to what it was at.
func (m *Model) follow() {
	for p := range m.lists {
		l := &m.lists[p]
		if l.at == "" {
			continue
		}
		for i, r := range m.rows(pane(p)) {
			if r.cells[0] == l.at {
				l.cursor = i
			}
		}
	}
}

func (m *Model) back() {
	if l := m.list(); m.hasList() && l.filter != "" {
		l.filter = ""
		return
	}
	if len(m.screens) > 1 {
		m.screens = m.screens[:len(m.screens)-1]
		m.scroll = 0
	}
}

func (m *Model) otherPane(k string) {
	switch m.at() {
	case overview:
		if k != "g" {
			m.focus[overview] = runsPane + enginesPane - m.focus[overview]
		}
	case oneRun:
		m.focus[oneRun] = stepsPane + gamesPane - m.focus[oneRun]
	case oneStep, help:
	}
}

// open goes into what the cursor is at.
func (m *Model) open() []Command {
	if !m.hasList() {
		return nil
	}
	rows := m.rows(m.pane())
	l := m.list()
	if l.cursor >= len(rows) {
		return nil
	}
	at := rows[l.cursor].index
	switch m.pane() {
	case runsPane:
		m.openRun(m.runs[at].Name())
	case stepsPane:
		m.step, m.scroll = m.steps[at].Step, 0
		m.screens = append(m.screens, oneStep)
	case gamesPane:
		if g := m.games.Games[at]; g.Kept {
			m.notice = "see it with: millrace run game " + strings.Replace(g.Name, "/", " ", 1)
		} else {
			m.notice = "game " + g.Name + " is not kept: its group is " + g.GroupState
		}
		return nil
	case enginesPane, panes:
	}
	return m.refresh()
}

// typeFilter takes a key of a filter that is being typed.
func (m *Model) typeFilter(k string) {
	l := m.list()
	switch k {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, l.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(l.filter)
		l.filter = l.filter[:len(l.filter)-size]
	case "space":
		l.filter += " "
	default:
		if utf8.RuneCountInString(k) == 1 && len(l.filter) < 64 {
			l.filter += k
		}
	}
	l.cursor, l.at = 0, ""
}

// resort goes to the list's next order.
func (m *Model) resort() {
	if !m.hasList() {
		return
	}
	l := m.list()
	if n := len(orders(m.pane())); n > 0 {
		l.sort = (l.sort + 1) % n
		l.cursor, l.at = 0, ""
	}
}

// orders lists the sort orders of a list.
func orders(p pane) []string {
	switch p {
	case runsPane:
		return []string{"started", "name", "state", "step time", "failed"}
	case enginesPane:
		return []string{"output", "name", "state", "running"}
	case gamesPane:
		return gamelist.Orders()
	case stepsPane:
		return []string{"step", "seconds", "wait"}
	case panes:
	}
	return nil
}

// askPause asks whether the run at the cursor, or the one looked at, shall be paused or resumed.
func (m *Model) askPause() {
	r := m.chosen()
	switch {
	case r == nil:
		m.notice = "no run is chosen: only runs can be paused"
	case r.State == runstatus.RunRunning:
		m.asking = &Pause{r.Name(), true}
	case r.State == runstatus.RunPaused || r.State == runstatus.RunLost:
		m.asking = &Pause{r.Name(), false}
	default:
		m.notice = "run " + string(r.Name()) + " is " + string(r.State) + ": it can be neither paused nor resumed"
	}
}

// chosen is the run that is looked at, or that the cursor is at.
func (m *Model) chosen() *tablerow.Run {
	if m.at() == oneRun {
		return m.run
	}
	if m.at() != overview || m.pane() != runsPane {
		return nil
	}
	rows := m.rows(runsPane)
	if at := m.list().cursor; at < len(rows) {
		return &m.runs[rows[at].index]
	}
	return nil
}

func (m *Model) confirm(k string) []Command {
	asked := *m.asking
	m.asking = nil
	if k == "y" || k == "Y" {
		return []Command{asked}
	}
	m.notice = "nothing was changed"
	return nil
}

// question asks to confirm, and describes the effect.
func (p Pause) question() string {
	if p.Paused {
		return "pause " + string(p.Run) + "? y/n: it launches no more games; those in flight finish"
	}
	return "resume " + string(p.Run) + "? y/n: it launches games again"
}

func matches(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	return filter == "" || slices.ContainsFunc(texts, func(text string) bool {
		return strings.Contains(strings.ToLower(text), filter)
	})
}

var helpText = strings.Split(`up, down, k, j    move          page up, page down, home, end    move far
enter, right      open: a run, a step; of a game the command that shows it
esc, left         back; with a filter: show all again
tab               the other list: runs and engines, steps and games
/                 filter: type, enter keeps it, esc drops it
s                 order by the next column          r    turn the order round
p                 pause the run, or let it go on; it is asked before
?                 this page                         q    quit

The screen is read anew every second; keys never wait for that. When the server
does not answer it is said since when, what was read last stays, and the screen
goes on by itself when it answers again.

Steps are bars: `+barLegend+`.
In the buffer # is ready, + in flight, . queued, against the run's target.
A > marks the line that keys act on, with colours or without.`, "\n")
