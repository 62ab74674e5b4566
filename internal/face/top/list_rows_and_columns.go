package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/kit/table"

	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// row is one line of a list: its subject, its cells, and whether something is wrong with it.
type row struct {
	index int
	cells []string
	style Style
}

// rows is the rows of a list as it is filtered and ordered.
func (m *Model) rows(p pane) []row {
	switch p {
	case runsPane:
		return m.runRows()
	case enginesPane:
		return m.engineRows()
	case stepsPane:
		return m.stepRows()
	case gamesPane:
		return m.gameRows()
	case panes:
	}
	return nil
}

// columns is the headings of a list.
func columns(p pane) []table.Column {
	l, r := table.Left, table.Right
	switch p {
	case runsPane:
		return []table.Column{l("RUN"), l("STATE"), r("STEP"), r("STEP s"), r("WAIT"), r("STALE"), r("READY"),
			r("FAILED"), r("FLEET tok/s"), r("FLYING"), l("WHAT IS WRONG")}
	case enginesPane:
		return []table.Column{l("ENGINE"), l("STATE"), r("RUNNING"), r("WAITING"), r("IN tok/s"), r("OUT tok/s"), r("KV"),
			r("CACHED"), r("ADAPTERS"), l("REASON")}
	case stepsPane:
		return []table.Column{r("STEP"), r("SECONDS"), r("WAIT"), r("STALE"), l("WHERE THE TIME WENT")}
	case gamesPane:
		return []table.Column{l("GAME"), l("STATE"), l("GROUP"), r("REWARD"), r("POLICY"), r("PHASES"), r("SECONDS"),
			r("ATT"),
			l("FAILURE")}
	case panes:
	}
	return nil
}

// arrange orders a list: by its chosen order, and rows that are alike by the name of theirs.
func arrange[T any](m *Model, p pane, of []T, wants func(*T) bool, compare ...func(a, b *T) int) []int {
	l := m.lists[p]
	var found []int
	for i := range of {
		if wants(&of[i]) {
			found = append(found, i)
		}
	}
	by := compare[l.sort%len(compare)]
	slices.SortStableFunc(found, func(a, b int) int {
		if l.reversed {
			a, b = b, a
		}
		return by(&of[a], &of[b])
	})
	return found
}

func (m *Model) runRows() (rows []row) {
	filter := m.lists[runsPane].filter
	order := arrange(m, runsPane, m.runs,
		func(r *tablerow.Run) bool {
			return matches(filter, string(r.Name()), string(r.State), r.Spec.Model, r.Reason)
		},
		func(a, b *tablerow.Run) int {
			return cmp.Or(over(a)-over(b), b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.Name(), b.Name()))
		},
		func(a, b *tablerow.Run) int { return cmp.Compare(a.Name(), b.Name()) },
		func(a, b *tablerow.Run) int {
			return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Name(), b.Name()))
		},
		func(a, b *tablerow.Run) int {
			return cmp.Or(cmp.Compare(stepSec(b), stepSec(a)), cmp.Compare(a.Name(), b.Name()))
		},
		func(a, b *tablerow.Run) int {
			return cmp.Or(cmp.Compare(b.Attempts.Failed, a.Attempts.Failed), cmp.Compare(a.Name(), b.Name()))
		})
	for _, i := range order {
		r := tablerow.RowOfRun(&m.runs[i])
		style := styleOf(r.Grade)
		if m.runs[i].State.Over() && style == Plain {
			style = Dim
		}
		rows = append(rows, row{i, []string{r.Name, r.State, r.Step, r.StepSec, r.Wait, r.Staleness, r.Ready, r.Failed,
			r.OutputTPS, r.InFlight, r.Wrong}, style})
	}
	return rows
}

// over is 1 for a run that is over: those that go on come first.
func over(r *tablerow.Run) int {
	if r.State.Over() {
		return 1
	}
	return 0
}

func stepSec(r *tablerow.Run) float64 {
	if r.Last == nil {
		return 0
	}
	return r.Last.StepSec()
}

func (m *Model) engineRows() (rows []row) {
	filter := m.lists[enginesPane].filter
	byName := func(a, b *enginestate.Engine) int { return cmp.Compare(a.ID, b.ID) }
	order := arrange(m, enginesPane, m.engines,
		func(e *enginestate.Engine) bool {
			return matches(filter, string(e.ID), string(e.State), e.URL, e.Reason)
		},
		func(a, b *enginestate.Engine) int {
			return cmp.Or(cmp.Compare(b.Load.OutputTPS, a.Load.OutputTPS), byName(a, b))
		},
		byName,
		func(a, b *enginestate.Engine) int { return cmp.Or(cmp.Compare(a.State, b.State), byName(a, b)) },
		func(a, b *enginestate.Engine) int {
			return cmp.Or(cmp.Compare(b.Load.Running, a.Load.Running), byName(a, b))
		})
	for _, i := range order {
		e := tablerow.RowOfEngine(m.engines[i], m.now)
		rows = append(rows, row{i, []string{e.ID, e.State, e.Running, e.Waiting, e.InputTPS, e.OutputTPS, e.KV, e.Cached,
			e.Adapters, e.Reason}, styleOf(e.Grade)})
	}
	return rows
}

func (m *Model) stepRows() (rows []row) {
	filter := m.lists[stepsPane].filter
	wait := func(r *steprecord.StepRecord) float64 { return r.StepPhases()[steprecord.PhaseWait] }
	order := arrange(m, stepsPane, m.steps,
		func(r *steprecord.StepRecord) bool { return matches(filter, fmt.Sprint(r.Step)) },
		func(a, b *steprecord.StepRecord) int { return cmp.Compare(b.Step, a.Step) },
		func(a, b *steprecord.StepRecord) int { return cmp.Compare(b.StepSec(), a.StepSec()) },
		func(a, b *steprecord.StepRecord) int { return cmp.Compare(wait(b), wait(a)) })
	longest := 0.0
	for i := range m.steps {
		longest = max(longest, m.steps[i].StepSec())
	}
	for _, i := range order {
		r := &m.steps[i]
		cells := tablerow.RowOfStep(r)
		switch {
		case cells.Missing != "":
			rows = append(rows, row{i, []string{cells.No, "…", "", "", "Redis has lost it"}, Dim})
		case !r.Done:
			rows = append(rows, row{i, []string{cells.No, cells.Sec, "", cells.StalenessMax, "under way"}, Dim})
		default:
			rows = append(rows, row{i, []string{cells.No, cells.Sec, cells.WaitShare, cells.StalenessMax,
				stepBar(*r, longest, max(10, m.width-30))}, Plain})
		}
	}
	return rows
}

// phaseLetters is how a phase is drawn in a bar.
var phaseLetters = map[steprecord.Phase]string{steprecord.PhaseWait: "W", steprecord.PhaseLoad: "l",
	steprecord.PhaseRefLogprobs: "r",
	steprecord.PhaseTrain:       "t", steprecord.PhasePublish: "p", steprecord.PhaseCheckpoint: "c",
	steprecord.PhaseOther: "o"}

// barLegend says what the letters of a bar are.
const barLegend = "W wait l load r ref t train p publish c checkpoint o other"

// stepBar is a step's seconds as letters, one for each of its phases' shares of the longest step. Every letter's end is
// rounded, not its length, so that the bar as a whole is as long as it should be.
func stepBar(r steprecord.StepRecord, longest float64, width int) string {
	if longest <= 0 {
		return ""
	}
	var b strings.Builder
	drawn, sum := 0, 0.0
	phases := r.StepPhases()
	for _, p := range steprecord.Phases() {
		sum += phases[p]
		end := min(width, int(sum/longest*float64(width)+0.5))
		b.WriteString(strings.Repeat(phaseLetters[p], max(0, end-drawn)))
		drawn = max(drawn, end)
	}
	return b.String()
}

func (m *Model) gameRows() (rows []row) {
	if m.games == nil {
		return nil
	}
	filter := m.lists[gamesPane].filter
	for i := range m.games.Games {
		g := &m.games.Games[i]
		cells := tablerow.RowOfGame(g)
		if !matches(filter, cells.Name, cells.State, g.GroupState, cells.Failure) {
			continue
		}
		style := styleOf(cells.Grade)
		if !g.Kept && style == Plain {
			style = Dim
		}
		rows = append(rows, row{i, []string{cells.Name, cells.State, cells.Group, cells.Reward, cells.Policy, cells.Phases,
			cells.Seconds, cells.Attempts, cells.Failure}, style})
	}
	return rows
}

// styleOf is how a grade is shown. What is good is not marked: a screen on which all is well has no colours.
func styleOf(g tablerow.Grade) Style {
	switch g {
	case tablerow.Warn:
		return Warn
	case tablerow.Bad:
		return Bad
	case tablerow.Good, tablerow.Plain:
	}
	return Plain
}
