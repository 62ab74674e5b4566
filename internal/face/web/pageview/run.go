package pageview

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/view"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Run is one run's page.
type Run struct {
	Name, State, StateClass, Reason string
	Over, Paused, Lost              bool
	Figures                         []Figure
	Verdict, VerdictClass, Summary  string
	Pending                         string // why there is no verdict yet
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
	Workflow                        string            // address of its workflow in Temporal's UI; empty: not known
	Charts
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

// RunOf makes a run's page.
func RunOf(in RunInput) Run {
	s := in.View.RunStatus
	v := Run{
		Name: string(s.Spec.Name.Plain()), State: string(s.State), StateClass: string(view.RunGrade(s.State)),
		Reason: Brief(s.Reason),
		Over:   s.State.Over(), Paused: s.State == runstatus.RunPaused, Lost: s.State == runstatus.RunLost,
		Alarms: in.View.Alarms, Waits: in.View.Waits, Failures: in.View.Attempts.ByCode, Charts: Charts{Window: in.Window,
			Zoomed: in.Zoomed},
		Behind: in.History.Behind, Pending: in.Failed,
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
		h.Text = Brief(h.Text)
		switch {
		case !inside(h):
		case h.Routine:
			v.Routine = append(v.Routine, h)
		default:
			v.Happenings = append(v.Happenings, h)
		}
	}
	v.Happenings, v.Routine = latestFirst(v.Happenings), latestFirst(v.Routine)
	steps := in.History.Steps
	for i := len(steps) - 1; i >= 0 && len(v.Steps) < mostStepRows; i-- {
		if !steps[i].At.After(in.Window.To) && !steps[i].At.Before(in.Window.From) {
			v.Steps = append(v.Steps, steps[i])
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
	v.Findings = r.Findings
	for _, shift := range r.Shifts {
		v.Jumps = append(v.Jumps, jumpText(shift)+".")
	}
	v.WhatIfs, v.StepSecNow = r.WhatIfs, r.Regime.StepSec
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
	return withValues(panels)
}
