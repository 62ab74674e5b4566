package pageview

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Run is one run's page.
type Run struct {
	Name, State, StateClass, Reason string
	Over, Paused                    bool
	View                            api.RunView
	Levels                          Levels
	Last                            *runhistory.Step // nil: none is completed
	Cost, CostTip                   string
	Goodput                         float64
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
		Name: string(s.Spec.Name.Plain()), State: string(s.State), StateClass: string(tablerow.RunGrade(s.State)),
		Reason: Brief(s.Reason),
		Over:   s.State.Over(), Paused: s.State == runstatus.RunPaused, View: in.View,
		Alarms: in.View.Alarms, Waits: in.View.Waits, Failures: in.View.Attempts.ByCode, Charts: Charts{Window: in.Window,
			Zoomed: in.Zoomed},
		Behind: in.History.Behind, Pending: in.Failed,
	}
	if s.Rollback != nil {
		v.Rollback = fmt.Sprintf("Redis came back older than it was (%s so far): millrace run show %s", plural(s.Rollbacks,
			"time"), v.Name)
	}
	v.Levels = levels(KnownRun{Status: s, Steps: in.History.Steps, Report: in.Report})
	if n := len(in.History.Steps); n > 0 {
		v.Last = &in.History.Steps[n-1]
		v.Cost, v.CostTip = cost(in.History.Steps)
	}
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

func (v *Run) addReport(r *diagnosis.Report) {
	if r == nil {
		if v.Pending == "" {
			v.Pending = "The diagnosis is being made; this page shows it when it is there."
		}
		return
	}
	v.Pending = ""
	v.Verdict, v.VerdictClass = VerdictWord(r)
	v.Summary = r.Summary
	v.Findings = r.Findings
	for _, shift := range r.Shifts {
		v.Jumps = append(v.Jumps, jumpText(shift)+".")
	}
	v.WhatIfs, v.StepSecNow, v.Goodput = r.WhatIfs, r.Regime.StepSec, r.Goodput
}

// panelsOf is all charts of a run over one time axis.
func panelsOf(in RunInput) []Panel {
	w, history := in.Window, in.History
	buckets := bucketsOf(history.Steps, w)
	var panels []Panel
	if len(buckets) > 0 {
		flags := w.flags(happeningsOf(in), jumps(in.Report, history.Steps))
		panels = append(panels, w.reward(history.Steps), w.stepTime(buckets, flags))
	}
	panels = append(panels, w.buffer(history.Steps, history.Facts.Levels))
	if len(buckets) > 0 {
		panels = append(panels, w.staleness(buckets, in.View.Spec.Buffer.MaxStaleness))
	}
	panels = append(panels, w.tokenRates(history.Facts.Rates)...)
	if len(buckets) > 0 {
		panels = append(panels, w.zeroVariance(buckets))
		panels = append(panels, w.evaluations(history.Steps)...)
		panels = append(panels, w.gameLengths(buckets))
	}
	if len(history.Facts.Failures) > 0 {
		panels = append(panels, w.failures(history.Facts.Failures))
	}
	return withValues(panels)
}
