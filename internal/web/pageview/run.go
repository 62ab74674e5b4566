package pageview

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/api"
	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/units"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// Run is one run's page.
type Run struct {
	Name, State, StateClass, Reason string
	Over, Paused, Lost              bool
	Figures                         []Figure
	Verdict, VerdictClass, Summary  string
	Pending                         string // why there is no verdict yet
	Findings                        []FindingRow
	Jumps                           []string
	Alarms                          []rollout.Alarm
	Rollback                        string
	Window                          Window
	Zoomed, Behind                  bool
	Panels                          []Panel
	Happenings, Routine             []runhistory.Happening // the latest first
	WhatIfs                         []WhatIfRow
	Waits                           []api.Wait
	Failures                        []FailureRow
	Steps                           []StepRow // the latest first
	Policies                        []rollout.Policy
	Workflow                        string // address of its workflow in Temporal's UI; empty: not known
}

// FindingRow is one thing that is wrong with the run.
type FindingRow struct {
	Class, Text, Since string
	Evidence           []string
	Fix                string
	Command            string
}

// WhatIfRow is one change and what would come of it.
type WhatIfRow struct {
	Change, Outcome, Class, StepTime, Interval, Versus, Note, Command string
}

// FailureRow is one way in which attempts at games failed.
type FailureRow struct {
	Code              rollout.Code
	Attempts, GivenUp int64
	Last, Game, Href  string
	LastAt            time.Time
}

// StepRow is a step in a row.
type StepRow struct {
	No                   rollout.Step
	Href, Sec, Wait      string
	At                   time.Time
	Staleness, Reward    string
	Ready, Output, Class string
}

// The most rows of lists on a run's page; the commands and the API have all.
const (
	mostHappeningRows = 40
	mostStepRows      = 30
)

// RunInput is what a run's page is made of.
type RunInput struct {
	View    api.RunView
	History runhistory.View
	Fleet   runhistory.Facts
	Report  *diagnosis.Report // nil: not made yet, or why not
	Failed  string
	Window  Window
	Zoomed  bool
}

// WholeOf is the window that holds all of a run's history.
func WholeOf(status rollout.RunStatus, history runhistory.View, now time.Time) Window {
	w := Window{status.StartedAt, now.Truncate(10 * time.Second).Add(10 * time.Second)}
	if n := len(history.Steps); n > 0 {
		first := startOf(history.Steps[0])
		if history.Steps[0].No > 0 || w.From.IsZero() {
			w.From = first
		}
		if status.State.Over() {
			w.To = history.Steps[n-1].At
		}
	}
	if status.State.Over() && status.EndedAt.After(w.From) {
		w.To = status.EndedAt
	}
	if !w.From.Before(w.To) {
		w.From = w.To.Add(-time.Minute)
	}
	return w
}

// RunOf makes a run's page.
func RunOf(in RunInput) Run {
	s := in.View.RunStatus
	v := Run{
		Name: string(s.Spec.Name.Plain()), State: string(s.State), StateClass: stateClass(s.State), Reason: brief(s.Reason),
		Over: s.State.Over(), Paused: s.State == rollout.RunPaused, Lost: s.State == rollout.RunLost,
		Alarms: in.View.Alarms, Waits: in.View.Waits, Policies: latestPolicies(s.Policies), Window: in.Window,
		Zoomed: in.Zoomed, Behind: in.History.Behind, Pending: in.Failed,
	}
	if s.Rollback != nil {
		v.Rollback = fmt.Sprintf("Redis came back older than it was (%s so far): millrace run show %s", plural(s.Rollbacks,
			"time"), v.Name)
	}
	v.Figures = runFigures(in)
	v.addReport(in.Report)
	v.Panels = panelsOf(in)
	inside := func(h runhistory.Happening) bool { return !h.At.Before(in.Window.From) && !h.At.After(in.Window.To) }
	for _, h := range happeningsOf(in) {
		h.Text = brief(h.Text)
		switch {
		case !inside(h):
		case h.Routine:
			v.Routine = append(v.Routine, h)
		default:
			v.Happenings = append(v.Happenings, h)
		}
	}
	v.Happenings, v.Routine = latestFirst(v.Happenings), latestFirst(v.Routine)
	for _, f := range in.View.Attempts.ByCode {
		row := FailureRow{Code: f.Code, Attempts: f.Attempts, GivenUp: f.GivenUp, Last: brief(f.Last), LastAt: f.LastAt,
			Game: f.LastGame}
		if ref, err := rollout.ParseEpisodeRef(f.LastGame); err == nil {
			row.Href = fmt.Sprintf("%s/games/%d/%d", v.Name, ref.Seq, ref.Sample)
		}
		v.Failures = append(v.Failures, row)
	}
	steps := in.History.Steps
	for i := len(steps) - 1; i >= 0 && len(v.Steps) < mostStepRows; i-- {
		if !steps[i].At.After(in.Window.To) && !steps[i].At.Before(in.Window.From) {
			v.Steps = append(v.Steps, stepRow(v.Name, &steps[i]))
		}
	}
	return v
}

// happeningsOf is what happened to the run and to the fleet, in the order of time.
func happeningsOf(in RunInput) []runhistory.Happening {
	all := slices.Concat(in.History.Facts.Happenings, in.Fleet.Happenings)
	slices.SortStableFunc(all, func(a, b runhistory.Happening) int { return a.At.Compare(b.At) })
	return all
}

// latestFirst is the latest of what happened, as many as a page shows.
func latestFirst(all []runhistory.Happening) []runhistory.Happening {
	all = slices.Clone(all[max(0, len(all)-mostHappeningRows):])
	slices.Reverse(all)
	return all
}

func latestPolicies(all []rollout.Policy) []rollout.Policy {
	const most = 8
	latest := slices.Clone(all[max(0, len(all)-most):])
	slices.Reverse(latest)
	return latest
}

func runFigures(in RunInput) []Figure {
	s, b := in.View.RunStatus, in.View.Buffer
	figures := []Figure{
		{"step", fmt.Sprintf("%d of %d", s.NextStep, s.Spec.Steps), "completed steps"},
		{"policy version", fmt.Sprint(s.PolicyVersion), "the newest that serves"},
		{"buffer", fmt.Sprintf("%d ready, %d in flight, %d queued, %d claimed", b.Ready, b.InFlight, b.Queued, b.Claimed),
			fmt.Sprintf("groups; depth %d x %d groups per step", s.Spec.Buffer.Depth, s.Spec.Buffer.GroupsPerStep)},
	}
	if b.Dropped > 0 {
		figures = append(figures, Figure{"dropped groups", Count(b.Dropped), "failed, cancelled or too stale"})
	}
	known := KnownRun{Status: s, Steps: in.History.Steps, Report: in.Report}
	if now, before, starved := levels(known); now > 0 {
		text := units.Seconds(now)
		if before > 0 {
			text += ", before " + units.Seconds(before)
		}
		figures = append(figures, Figure{"step time", text, "of the present level of steps, and of the one before"},
			Figure{"trainer waits", units.Percent(starved), "share of the step time"})
	}
	if in.Report != nil && in.Report.Goodput > 0 {
		figures = append(figures, Figure{"goodput", units.Percent(in.Report.Goodput),
			"share of the wall time that was useful compute"})
	}
	if f := in.View.Fleet; f != nil {
		figures = append(figures, Figure{"engines, last minute", fmt.Sprintf("%s ready, %s busy, %s out, %s in",
			units.Number(f.Engines), units.Percent(f.BusyShare), Rate(f.OutputTPS), Rate(f.InputTPS)),
			"of all runs"})
	}
	if n := len(in.History.Steps); n > 0 {
		last := in.History.Steps[n-1]
		text, tip := cost(in.History.Steps)
		figures = append(figures, Figure{"staleness", fmt.Sprintf("%s (max %d of %d)", units.Number(last.StalenessMean),
			last.StalenessMax, s.Spec.Buffer.MaxStaleness), "of the last batch, in policy versions"},
			Figure{"engine time", text, tip})
	}
	return figures
}

func (v *Run) addReport(r *diagnosis.Report) {
	if r == nil {
		if v.Pending == "" {
			v.Pending = "The diagnosis is being made; this page shows it when it is there."
		}
		return
	}
	v.Pending = ""
	v.Verdict, v.VerdictClass = VerdictWord(r.Verdict)
	v.Summary = r.Summary
	for _, f := range r.Findings {
		row := FindingRow{Text: f.Text}
		_, row.Class = VerdictWord(f.Verdict)
		if f.Since != nil {
			row.Since = fmt.Sprintf("since step %d", *f.Since)
		}
		for _, e := range f.Evidence {
			row.Evidence = append(row.Evidence, fmt.Sprintf("%s (%s)", e.Text, e.Basis))
		}
		if f.Fix != nil {
			row.Fix, row.Command = f.Fix.Text, f.Fix.Command
		}
		v.Findings = append(v.Findings, row)
	}
	for _, shift := range r.Shifts {
		v.Jumps = append(v.Jumps, jumpText(shift)+".")
	}
	for _, w := range r.WhatIfs {
		row := WhatIfRow{Change: w.Change, Outcome: string(w.Outcome), StepTime: units.Seconds(w.StepSec), Note: w.Note,
			Command: w.Command}
		switch w.Outcome {
		case diagnosis.Helps:
			row.Class = "good"
		case diagnosis.Worse:
			row.Class = "bad"
		case diagnosis.HelpsNot, diagnosis.MayHelp:
		}
		if w.HighSec > w.LowSec {
			row.Interval = units.Seconds(w.LowSec) + " to " + units.Seconds(w.HighSec)
		}
		if now := r.Regime.StepSec; now > 0 && w.StepSec > 0 {
			row.Versus = signedPercent(w.StepSec/now - 1)
		}
		v.WhatIfs = append(v.WhatIfs, row)
	}
}

// panelsOf is all charts of a run over one time axis.
func panelsOf(in RunInput) []Panel {
	w, history := in.Window, in.History
	buckets := bucketsOf(history.Steps, w)
	var panels []Panel
	if len(buckets) > 0 {
		flags := w.flags(happeningsOf(in), jumps(in.Report, history.Steps))
		panels = append(panels, w.stepTime(buckets, flags))
	}
	panels = append(panels, w.buffer(history.Steps, history.Facts.Levels))
	if len(buckets) > 0 {
		panels = append(panels, w.staleness(buckets, in.View.Spec.Buffer.MaxStaleness))
	}
	panels = append(panels, w.tokenRates(history.Facts.Rates)...)
	if len(buckets) > 0 {
		panels = append(panels, w.rewardByVersion(buckets), w.zeroVariance(buckets))
		panels = append(panels, w.evaluations(history.Steps)...)
		panels = append(panels, w.gameLengths(buckets))
	}
	if len(history.Facts.Failures) > 0 {
		panels = append(panels, w.failures(history.Facts.Failures))
	}
	panels = slices.DeleteFunc(panels, func(p Panel) bool { return len(p.Table.Rows) == 0 })
	for i := range panels {
		panels[i].JSON = fmt.Sprintf("%s/charts/%s?%s", in.View.Spec.Name.Plain(), panels[i].ID, w.query())
	}
	return panels
}

// ChartOf is the table of one chart of a run's page; false: there is none of that name.
func ChartOf(in RunInput, id string) (Table, bool) {
	return tableOf(panelsOf(in), id)
}

func tableOf(panels []Panel, id string) (Table, bool) {
	i := slices.IndexFunc(panels, func(p Panel) bool { return p.ID == id })
	if i < 0 {
		return Table{}, false
	}
	return panels[i].Table, true
}

func stepRow(run string, s *runhistory.Step) StepRow {
	row := StepRow{No: s.No, Href: fmt.Sprintf("%s/steps/%d", run, s.No), Sec: units.Seconds(s.Sec), At: s.At,
		Staleness: fmt.Sprintf("%s (max %d)", units.Number(s.StalenessMean), s.StalenessMax),
		Ready:     units.Number(s.ReadyDepth), Output: Rate(s.OutputTPS)}
	row.Wait = secondsOrNothing(s.StarvedSec)
	if s.Sec > 0 {
		row.Class = graded(s.StarvedSec/s.Sec, 0.05, 0.2)
	}
	if s.Reward.Count > 0 {
		row.Reward = fmt.Sprintf("%.3f", s.Reward.Value())
	}
	if s.Lost {
		row.Sec, row.Wait = "record lost", ""
	}
	return row
}
