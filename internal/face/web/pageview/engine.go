package pageview

import (
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Engine is the page of one engine.
type Engine struct {
	enginestate.Engine
	StateClass tablerow.Grade
	Closed     []string
	SignOfLife string // how long ago the latest was; empty: not known
	Adapters   []AdapterRow
	Happenings []runhistory.Happening // the latest first
	Workflow   string                 // address of the keeper's workflow in Temporal's UI; empty: not known
	Charts
}

// EngineOf makes the page of an engine; runs are those whose adapters it may have.
func EngineOf(e enginestate.Engine, runs []runstatus.RunStatus, fleet runhistory.Facts, w Window,
	now time.Time) Engine {
	v := Engine{Engine: e, StateClass: tablerow.EngineGrade(e.State), Adapters: adapterRows(e, runs),
		Happenings: latestFirst(engineHappenings(e.ID, fleet)),
		Charts:     Charts{Window: w, Panels: w.enginePanels(e.ID, fleet)}}
	for _, c := range e.Closures {
		v.Closed = append(v.Closed, Brief(c.Text(now)))
	}
	if life := now.Sub(e.Load.LifeAt); !e.Load.LifeAt.IsZero() && life >= 0 {
		v.SignOfLife = units.Seconds(life.Seconds()) + " ago"
	}
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
