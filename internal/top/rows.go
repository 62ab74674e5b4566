package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/table"
	"github.com/millrace/millrace/internal/termtext"
	"github.com/millrace/millrace/internal/units"
)

// row is one line of a list: what it is of, its cells, and whether something is wrong with it.
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
	case turnsPane:
		return m.turnRows()
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
			r("FAILED"), r("OUT tok/s"), r("FLYING"), l("WHAT IS WRONG")}
	case enginesPane:
		return []table.Column{l("ENGINE"), l("STATE"), r("RUNNING"), r("WAITING"), r("IN tok/s"), r("OUT tok/s"), r("KV"),
			r("CACHED"), r("ADAPTERS"), l("REASON")}
	case stepsPane:
		return []table.Column{r("STEP"), r("SECONDS"), r("WAIT"), r("STALE"), l("WHERE THE TIME WENT")}
	case gamesPane:
		return []table.Column{l("GAME"), l("STATE"), l("GROUP"), r("REWARD"), r("POLICY"), r("PHASES"), r("SECONDS"),
			r("ATT"),
			l("FAILURE")}
	case turnsPane, panes:
	}
	return []table.Column{r("TURN"), l("PHASE"), l("AGENT"), r("POLICY"), l("ENGINE"), r("TOKENS"), r("LOGPROB"),
		l("COMPLETION")}
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
		func(r *Run) bool { return matches(filter, string(r.Name()), string(r.State), r.Spec.Model, r.Reason) },
		func(a, b *Run) int {
			return cmp.Or(over(a)-over(b), b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.Name(), b.Name()))
		},
		func(a, b *Run) int { return cmp.Compare(a.Name(), b.Name()) },
		func(a, b *Run) int { return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Name(), b.Name())) },
		func(a, b *Run) int {
			return cmp.Or(cmp.Compare(stepSec(b), stepSec(a)), cmp.Compare(a.Name(), b.Name()))
		},
		func(a, b *Run) int {
			return cmp.Or(cmp.Compare(b.Attempts.Failed, a.Attempts.Failed), cmp.Compare(a.Name(), b.Name()))
		})
	for _, i := range order {
		r := &m.runs[i]
		step, wait, stale, out := "-", "-", "-", "-"
		if r.Last != nil {
			step, stale = seconds(r.Last.StepSec()), fmt.Sprint(r.Last.Service.StalenessMax)
			wait = units.Percent(share(r.Last.StepPhases()[rollout.PhaseWait], r.Last.StepSec()))
		}
		if r.Fleet != nil {
			out = fmt.Sprintf("%.0f", r.Fleet.OutputTPS)
		}
		wrong, style := r.wrong()
		rows = append(rows, row{i, []string{string(r.Name()), string(r.State), fmt.Sprintf("%d/%d", r.NextStep, r.Spec.Steps),
			step, wait, stale, fmt.Sprintf("%.1f", r.ReadyDepth), fmt.Sprint(r.Attempts.Failed), out,
			fmt.Sprint(r.Buffer.InFlight), wrong}, style})
	}
	return rows
}

// over is 1 for a run that is over: those that go on come first.
func over(r *Run) int {
	if r.State.Over() {
		return 1
	}
	return 0
}

func stepSec(r *Run) float64 {
	if r.Last == nil {
		return 0
	}
	return r.Last.StepSec()
}

// wrong is what a run suffers from, in a word, and how it is shown.
func (r *Run) wrong() (string, Style) {
	switch {
	case len(r.Alarms) > 0:
		return r.Alarms[0].Text, Bad
	case r.State == rollout.RunFailed || r.State == rollout.RunLost:
		return r.Reason, Bad
	case r.Throttle != "":
		return "throttled by " + string(r.Throttle), Warn
	case r.RewardVariance.Collapsed:
		return "no reward variance", Warn
	case r.State == rollout.RunPaused:
		return cmp.Or(r.Reason, "paused"), Warn
	case r.State.Over():
		return r.Reason, Dim
	}
	return "", Plain
}

func (m *Model) engineRows() (rows []row) {
	filter := m.lists[enginesPane].filter
	byName := func(a, b *rollout.Engine) int { return cmp.Compare(a.ID, b.ID) }
	order := arrange(m, enginesPane, m.engines,
		func(e *rollout.Engine) bool { return matches(filter, string(e.ID), string(e.State), e.URL, e.Reason) },
		func(a, b *rollout.Engine) int {
			return cmp.Or(cmp.Compare(b.Load.OutputTPS, a.Load.OutputTPS), byName(a, b))
		},
		byName,
		func(a, b *rollout.Engine) int { return cmp.Or(cmp.Compare(a.State, b.State), byName(a, b)) },
		func(a, b *rollout.Engine) int {
			return cmp.Or(cmp.Compare(b.Load.Running, a.Load.Running), byName(a, b))
		})
	for _, i := range order {
		e := &m.engines[i]
		l, style := e.Load, Plain
		if e.State != rollout.EngineReady {
			style = Warn
		}
		if e.State == rollout.EngineLost || e.State == rollout.EngineQuarantined {
			style = Bad
		}
		rows = append(rows, row{i, []string{string(e.ID), string(e.State), fmt.Sprintf("%.0f", l.Running),
			fmt.Sprintf("%.0f", l.Waiting), fmt.Sprintf("%.0f", l.InputTPS), fmt.Sprintf("%.0f", l.OutputTPS),
			units.Percent(l.KVUsage), units.Percent(l.PrefixHitShare), fmt.Sprint(len(e.Adapters)), e.Reason}, style})
	}
	return rows
}

func (m *Model) stepRows() (rows []row) {
	filter := m.lists[stepsPane].filter
	wait := func(r *rollout.StepRecord) float64 { return r.StepPhases()[rollout.PhaseWait] }
	order := arrange(m, stepsPane, m.steps,
		func(r *rollout.StepRecord) bool { return matches(filter, fmt.Sprint(r.Step)) },
		func(a, b *rollout.StepRecord) int { return cmp.Compare(b.Step, a.Step) },
		func(a, b *rollout.StepRecord) int { return cmp.Compare(b.StepSec(), a.StepSec()) },
		func(a, b *rollout.StepRecord) int { return cmp.Compare(wait(b), wait(a)) })
	longest := 0.0
	for i := range m.steps {
		longest = max(longest, m.steps[i].StepSec())
	}
	for _, i := range order {
		r := &m.steps[i]
		if !r.Done {
			what := "under way"
			if r.LostBatch || r.LostRecord {
				what = "Redis has lost it"
			}
			rows = append(rows, row{i, []string{fmt.Sprint(r.Step), "…", "", fmt.Sprint(r.Service.StalenessMax), what}, Dim})
			continue
		}
		rows = append(rows, row{i, []string{fmt.Sprint(r.Step), seconds(r.StepSec()),
			units.Percent(share(wait(r), r.StepSec())), fmt.Sprint(r.Service.StalenessMax),
			stepBar(*r, longest, max(10, m.width-30))}, Plain})
	}
	return rows
}

// phaseLetters is how a phase is drawn in a bar.
var phaseLetters = map[rollout.Phase]string{rollout.PhaseWait: "W", rollout.PhaseLoad: "l",
	rollout.PhaseRefLogprobs: "r",
	rollout.PhaseTrain:       "t", rollout.PhasePublish: "p", rollout.PhaseCheckpoint: "c", rollout.PhaseOther: "o"}

// barLegend says what the letters of a bar are.
const barLegend = "W wait l load r ref t train p publish c checkpoint o other"

// stepBar is a step's seconds as letters, one for each of its phases' shares of the longest step. Every letter's end is
// rounded, not its length, so that the bar as a whole is as long as it should be.
func stepBar(r rollout.StepRecord, longest float64, width int) string {
	if longest <= 0 {
		return ""
	}
	var b strings.Builder
	drawn, sum := 0, 0.0
	phases := r.StepPhases()
	for _, p := range rollout.Phases() {
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
		name := strings.TrimPrefix(g.Name, string(m.of)+"/")
		if !matches(filter, name, string(g.State), g.GroupState, string(g.Code), g.Failure) {
			continue
		}
		reward, policy, group, style := "-", "-", g.GroupState, Plain
		if g.Reward != nil {
			reward = fmt.Sprintf("%.3f", *g.Reward)
		}
		if g.MaxVersion != nil {
			policy = fmt.Sprintf("v%d", *g.MaxVersion)
		}
		if !g.Kept {
			group, style = "("+group+")", Dim
		}
		failure := string(g.Code)
		if g.Failure != "" {
			failure += ": " + strings.TrimPrefix(g.Failure, failure+": ")
		}
		if g.State == "failed" {
			style = Bad
		}
		rows = append(rows, row{i, []string{name, string(g.State), group, reward, policy, fmt.Sprint(g.Phases),
			seconds(g.Seconds),
			fmt.Sprint(g.Attempts), failure}, style})
	}
	return rows
}

func (m *Model) turnRows() (rows []row) {
	if m.turns == nil {
		return nil
	}
	filter, reversed := m.lists[turnsPane].filter, m.lists[turnsPane].reversed
	for i := range m.turns.Turns {
		t := &m.turns.Turns[i]
		if matches(filter, t.Phase, t.Agent, string(t.Engine), t.Text) {
			rows = append(rows, row{i, []string{fmt.Sprint(t.Turn), t.Phase, t.Agent, fmt.Sprintf("v%d", t.PolicyVersion),
				string(t.Engine), fmt.Sprint(t.Tokens), fmt.Sprintf("%.2f", t.MeanLogprob), short(t.Text)}, Plain})
		}
	}
	if reversed {
		slices.Reverse(rows)
	}
	return rows
}

// short is as much of a text as could stand in a line.
func short(text string) string { return strings.TrimSpace(termtext.First(text, 200)) }

// seconds writes seconds so that a column of them lines up.
func seconds(v float64) string { return fmt.Sprintf("%.1f", v) }

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}
