package pageview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/view"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Engine is the page of one engine.
type Engine struct {
	ID, URL, State, StateClass, Reason string
	Since                              time.Time
	Slow                               string
	Draining                           bool
	Closed                             []string
	Figures                            []Figure
	Models                             []string
	Adapters                           []AdapterRow
	Happenings                         []runhistory.Happening // the latest first
	// address of the keeper's workflow in Temporal's UI; empty: not known
	Workflow string
	Charts
}

// EngineOf makes the page of an engine; runs are those whose adapters it may have.
func EngineOf(e enginestate.Engine, runs []runstatus.RunStatus, fleet runhistory.Facts, w Window,
	now time.Time) Engine {
	v := Engine{ID: string(e.ID), URL: e.URL, State: string(e.State), StateClass: string(view.EngineGrade(e.State)),
		Reason: Brief(e.Reason), Since: e.Since, Slow: Brief(e.Slow), Draining: e.State == enginestate.EngineDraining}
	for _, model := range e.Models {
		v.Models = append(v.Models, harmless(model))
	}
	for _, c := range e.Closures {
		v.Closed = append(v.Closed, Brief(c.Text(now)))
	}
	v.Figures = engineFigures(e, now)
	v.Adapters = adapterRows(e, runs)
	v.Happenings = latestFirst(engineHappenings(e.ID, fleet))
	v.Window, v.Panels = w, w.enginePanels(e.ID, fleet)
	return v
}

// engineHappenings is what happened to one engine.
func engineHappenings(id rollout.EngineID, fleet runhistory.Facts) []runhistory.Happening {
	var all []runhistory.Happening
	for _, h := range fleet.Happenings {
		if strings.HasPrefix(h.Text, string(id)+" ") {
			h.Text = Brief(h.Text)
			all = append(all, h)
		}
	}
	return all
}

func engineFigures(e enginestate.Engine, now time.Time) []Figure {
	l := e.Load
	if l.At.IsZero() {
		return []Figure{{"load", "not known", "no look at its counters has succeeded yet"}}
	}
	figures := []Figure{
		{"output", Rate(l.OutputTPS), "by its own counters, over " + units.Seconds(l.WindowSec)},
		{"input", Rate(l.InputTPS), "by its own counters, over " + units.Seconds(l.WindowSec)},
		{"batch", fmt.Sprintf("%.0f running", l.Running), "requests that it generates for now"},
		{"its own queue", fmt.Sprintf("%.0f waiting", l.Waiting), "requests that wait inside the engine"},
		{"limit", fmt.Sprintf("%d of %d", e.Limit(), e.MaxInFlight),
			"requests that it is given at most; half of it while it is slow"},
		{"wait in dispatch", units.Seconds(l.QueueSec), "mean of the requests answered in the window"},
		{"KV cache", units.Percent(l.KVUsage), "in use"},
		{"prefix cache hits", units.Percent(l.PrefixHitShare), "of the prompts' tokens in the window"},
		{"preemptions", fmt.Sprintf("%.0f", l.Preemptions), "requests thrown out of the batch in the window"},
	}
	if life := now.Sub(l.LifeAt); !l.LifeAt.IsZero() && life >= 0 {
		figures = append(figures, Figure{"sign of life", units.Seconds(life.Seconds()) + " ago",
			"the latest: it generated tokens, or answered a canary"})
	}
	if l.RequestSec > 0 {
		figures = append(figures, Figure{"request", units.Seconds(l.RequestSec), "mean time in the engine"})
	}
	if l.UsageWindowSec > 0 {
		figures = append(figures, Figure{"usage error", fmt.Sprintf("in %s, out %s", signedPercent(l.UsageInputError),
			signedPercent(l.UsageOutputError)), "its tokens that no answer accounts for, over " +
			units.Seconds(l.UsageWindowSec)})
	}
	if e.Version != "" {
		figures = append(figures, Figure{"version", harmless(e.Version), "of its software"})
	}
	return append(figures, Figure{"source", cmp.Or(e.Source, "operator or configuration"), "who added it"})
}
