package pageview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
)

// The tabs of a run's page. Each but the overview, which is the run's page itself, has an address below that.
const (
	OverviewTab = "overview"
	CurveTab    = "curve"
	StepsTab    = "steps"
	GamesTab    = "games"
	EventsTab   = "events"
	SpecTab     = "spec"
)

// RunTabs is all of them, as they stand on the page.
func RunTabs() []string {
	return []string{OverviewTab, CurveTab, StepsTab, GamesTab, EventsTab, SpecTab}
}

// Run is one tab of a run's page. What another tab shows is empty.
type Run struct {
	Tab                             string
	Name, State, StateClass, Reason string
	Over, Paused                    bool
	Figures                         []Figure
	Verdict, VerdictClass, Summary  string
	Pending                         string // why there is no verdict yet
	Told                            bool   // an alarm says what the verdict says
	Findings                        []diagnosis.Finding
	Jumps                           []string
	Alarms                          []runstatus.Alarm
	Rollback                        string
	Behind                          bool                   // earlier steps are still being read
	Happenings, Routine             []runhistory.Happening // the latest first
	StepSecNow                      float64                // of the present level, by the diagnosis
	WhatIfs                         []diagnosis.WhatIf
	Waits                           []api.Wait
	Failures                        []runstatus.FailedAttempts
	Steps                           []runhistory.Step // the latest first
	Games                           GameList
	Ratings                         *Ratings // nil: no game between different players is known
	Evaluations                     []tablerow.EvaluationRow
	Unevaluated                     []string // why versions that the spec wants evaluated are not
	Settings                        []spec.Setting
	Workflow                        string // address of its workflow in Temporal's UI; empty: not known
	Charts
}

// The most rows of lists on a run's page; the commands and the API have all.
const (
	mostHappeningRows = 40
	mostStepRows      = 30
)

// RunInput is what a run's page is made of.
type RunInput struct {
	Tab     string
	View    api.RunView
	History runhistory.View
	Fleet   runhistory.Facts
	Report  *diagnosis.Report // nil: not made yet, or why not
	Failed  string
	Window  Window
	Zoomed  bool
}

// WholeOf is the window that holds all of a run's history.
func WholeOf(status runstatus.RunStatus, history runhistory.View, now time.Time) Window {
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

// RunOf makes a tab of a run's page.
func RunOf(in RunInput) Run {
	s := in.View.RunStatus
	v := Run{
		Tab: in.Tab, Name: string(s.Spec.Name.Plain()), State: string(s.State),
		StateClass: string(tablerow.RunGrade(s.State)),
		Reason:     Brief(s.Reason), Over: s.State.Over(), Paused: s.State == runstatus.RunPaused,
		Behind: in.History.Behind, Charts: Charts{Window: in.Window, Zoomed: in.Zoomed, Panels: panelsOf(in)},
	}
	if len(in.View.Alarms) > 0 {
		v.StateClass = string(tablerow.Bad)
	}
	switch in.Tab {
	case OverviewTab:
		v.Figures = runFigures(in)
		v.Alarms = in.View.Alarms
		for _, w := range in.View.Waits {
			if !v.told(func(text string) bool { return strings.HasPrefix(w.Detail, text) }) {
				v.Waits = append(v.Waits, w)
			}
		}
		if s.Rollback != nil {
			v.Rollback = fmt.Sprintf("Redis came back older than it was (%s so far): millrace run show %s",
				plural(s.Rollbacks, "time"), v.Name)
		}
		v.addReport(in)
	case CurveTab:
		v.Ratings = ratingsOf(in.History.Steps)
	case StepsTab:
		v.addSteps(in)
	case GamesTab:
		v.Failures = in.View.Attempts.ByCode
	case EventsTab:
		v.addHappenings(in)
	case SpecTab:
		v.Settings = spec.Settings(s.Spec)
	}
	return v
}

// addSteps adds the latest steps of the window.
func (v *Run) addSteps(in RunInput) {
	for _, s := range slices.Backward(in.History.Steps) {
		if len(v.Steps) < mostStepRows && !s.At.After(in.Window.To) && !s.At.Before(in.Window.From) {
			v.Steps = append(v.Steps, s)
		}
	}
}

func (v *Run) addHappenings(in RunInput) {
	for _, h := range happeningsOf(in) {
		h.Text = Brief(h.Text)
		switch {
		case h.At.Before(in.Window.From) || h.At.After(in.Window.To):
		case h.Routine:
			v.Routine = append(v.Routine, h)
		default:
			v.Happenings = append(v.Happenings, h)
		}
	}
	v.Happenings, v.Routine = latestFirst(v.Happenings), latestFirst(v.Routine)
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

func (v *Run) addReport(in RunInput) {
	r := in.Report
	if r == nil {
		v.Pending = cmp.Or(in.Failed, "The diagnosis is being made; this page shows it when it is there.")
		return
	}
	v.Verdict, v.VerdictClass = VerdictWord(r)
	v.Summary = r.Summary
	v.Told = v.told(func(text string) bool { return same(text, r.Summary) })
	for _, f := range r.Findings {
		if !v.told(func(text string) bool { return same(text, f.Text) }) {
			if strings.HasSuffix(r.Summary, f.Text) {
				f.Text = "" // the verdict above has said it
			}
			v.Findings = append(v.Findings, f)
		}
	}
	for _, shift := range r.Shifts {
		v.Jumps = append(v.Jumps, jumpText(shift)+".")
	}
	v.WhatIfs, v.StepSecNow = r.WhatIfs, r.Regime.StepSec
}

// told reports whether an alarm, which stands above all else, says something.
func (v *Run) told(says func(alarm string) bool) bool {
	return slices.ContainsFunc(v.Alarms, func(a runstatus.Alarm) bool { return says(a.Text) })
}

// same reports whether two texts differ in nothing but figures, which age, and being a sentence.
func same(a, b string) bool {
	words := func(text string) string {
		return strings.TrimSuffix(strings.Join(strings.FieldsFunc(text, digit), ""), ".")
	}
	return strings.EqualFold(words(a), words(b))
}

func digit(r rune) bool { return r >= '0' && r <= '9' }

// panelsOf is the charts of a run's tab, all over one time axis; those of which nothing is known are left out.
func panelsOf(in RunInput) []Panel {
	w, history := in.Window, in.History
	buckets := bucketsOf(history.Steps, w)
	var panels []Panel
	of := func(tabs ...string) bool { return slices.Contains(tabs, in.Tab) }
	if of(OverviewTab, StepsTab) && len(buckets) > 0 {
		panels = append(panels, w.stepTime(buckets, w.flags(happeningsOf(in), jumps(in.Report, history.Steps))))
	}
	if of(OverviewTab, CurveTab) && len(buckets) > 0 {
		reward := w.reward(history.Steps)
		reward.Whole = of(CurveTab)
		panels = append(panels, reward)
	}
	if of(OverviewTab, StepsTab) {
		panels = append(panels, w.buffer(history.Steps, history.Facts.Levels))
	}
	if of(CurveTab) && len(buckets) > 0 {
		panels = append(panels, w.evaluations(history.Steps)...)
		panels = append(panels, w.zeroVariance(buckets), w.gameLengths(buckets))
	}
	if of(StepsTab) {
		if len(buckets) > 0 {
			panels = append(panels, w.staleness(buckets, in.View.Spec.Buffer.MaxStaleness))
		}
		panels = append(panels, w.tokenRates(history.Facts.Rates)...)
	}
	if of(GamesTab) && len(history.Facts.Failures) > 0 {
		panels = append(panels, w.failures(history.Facts.Failures))
	}
	return withValues(panels)
}
