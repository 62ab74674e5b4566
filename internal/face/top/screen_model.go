package top

import (
	"errors"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// screen is what is looked at.
type screen int

const (
	overview screen = iota
	oneRun
	oneStep
	help
)

// pane is a list of a screen. The overview and a run have two.
type pane int

const (
	runsPane pane = iota
	enginesPane
	stepsPane
	gamesPane
	panes
)

// list is where a person is in a list, and how it is shown.
type list struct {
	cursor   int
	at       string // the first cell of the row that the cursor is at, if it is not the first row
	top      int    // first row on the screen
	sort     int    // which of the list's orders
	reversed bool
	filter   string
}

// Model is the state of the screen. Its zero value shows nothing; New makes one.
type Model struct {
	server        string
	width, height int
	now           time.Time

	screens []screen // opened one from the other; the last one is looked at
	focus   map[screen]pane
	lists   [panes]list
	typing  bool // a filter is being typed

	runs    []tablerow.Run
	engines []enginestate.Engine
	fleet   *supply.View
	wrong   []api.Trouble // with what all runs share
	name    string        // the deployment's
	unknown bool          // whether there are runs and engines
	readAt  time.Time     // of the overview; zero: never
	lost    time.Time     // since when the server has not answered; zero: it does
	why     string        // it did not

	of     rollout.RunName // the run that is looked at
	run    *tablerow.Run
	steps  []steprecord.StepRecord // newest first
	games  *gamelist.Page
	step   rollout.Step
	scroll int // of a text

	asking  *Pause // to be confirmed
	notice  string // what came of the last change, or why something could not be shown
	pending map[string]bool
}

// New is the screen before the first answer; a run that is named is opened at once.
func New(server string, run rollout.RunName, width, height int, now time.Time) *Model {
	m := &Model{server: server, width: width, height: height, now: now, screens: []screen{overview},
		focus: map[screen]pane{overview: runsPane, oneRun: stepsPane}, pending: map[string]bool{}}
	if run != "" {
		m.openRun(run)
	}
	return m
}

// Start is what is to be done first.
func (m *Model) Start() []Command { return m.refresh() }

func (m *Model) at() screen { return m.screens[len(m.screens)-1] }

// pane is the list that keys move in.
func (m *Model) pane() pane { return m.focus[m.at()] }

func (m *Model) list() *list { return &m.lists[m.pane()] }

// Read reports whether the server has answered at all.
func (m *Model) Read() bool { return !m.readAt.IsZero() || m.run != nil }

// Update takes an event and returns what is to be done about it.
func (m *Model) Update(e Event) []Command {
	switch e := e.(type) {
	case Key:
		return m.key(string(e))
	case Resized:
		m.width, m.height = e.Width, e.Height
	case Ticked:
		m.now = e.At
		return m.refresh()
	case Overview:
		m.took("overview", e.Err)
		if e.Err == nil {
			m.runs, m.engines, m.fleet, m.wrong, m.readAt = e.Runs, e.Engines, e.Fleet, e.Wrong, e.At
			m.name = e.Name
			m.unknown = e.Unknown
		}
	case RunRead:
		m.took("run", e.Err)
		if e.Err == nil && e.Of == m.of {
			m.readRun(e)
		}
	case GamesRead:
		m.took("games", e.Err)
		if e.Err == nil && e.Of == m.of {
			m.games = &e.Page
		}
	case Acted:
		m.notice = e.What
		if e.Err != nil {
			m.notice = e.What + ": " + e.Err.Error()
		}
		return m.refresh()
	}
	m.follow()
	m.bound()
	return nil
}

func (m *Model) readRun(e RunRead) {
	m.run = &e.Run
	m.steps = nil
	for i := range e.Steps {
		m.steps = append(m.steps, e.Steps[len(e.Steps)-1-i])
	}
}

// Unreachable is an error that says that the server does not answer, which passes by itself.
type Unreachable interface{ Unreachable() bool }

// took notes that an answer came, or none. A refusal is shown; a server that does not answer is waited for.
func (m *Model) took(what string, err error) {
	delete(m.pending, what)
	var gone Unreachable
	switch is := asUnreachable(err, &gone); {
	case err == nil:
		m.lost, m.why = time.Time{}, ""
	case is && m.lost.IsZero():
		m.lost, m.why = m.now, err.Error()
	case is:
		m.why = err.Error()
	default:
		m.notice = err.Error()
	}
}

// refresh asks for what is looked at, unless an answer is still under way.
func (m *Model) refresh() []Command {
	var commands []Command
	ask := func(what string, c Command) {
		if !m.pending[what] {
			m.pending[what] = true
			commands = append(commands, c)
		}
	}
	switch m.at() {
	case overview:
		ask("overview", ReadOverview{})
	case oneRun, oneStep:
		ask("run", ReadRun{m.of})
		if m.pane() == gamesPane && m.at() == oneRun {
			ask("games", m.readGames())
		}
	case help:
	}
	return commands
}

func (m *Model) readGames() Command {
	l := m.lists[gamesPane]
	sort := gamelist.Orders()[l.sort%len(gamelist.Orders())]
	if l.reversed {
		sort = "-" + sort
	}
	return ReadGames{m.of, sort}
}

// openRun goes to a run.
func (m *Model) openRun(run rollout.RunName) {
	if run != m.of {
		m.run, m.steps, m.games = nil, nil, nil
		m.lists[stepsPane], m.lists[gamesPane] = list{}, list{}
	}
	m.of = run
	for i := range m.runs {
		if m.runs[i].Name() == run && m.run == nil {
			m.run = &m.runs[i]
		}
	}
	m.screens = append(m.screens, oneRun)
}

func asUnreachable(err error, to *Unreachable) bool { return errors.As(err, to) && (*to).Unreachable() }
