package pageview

import (
	"fmt"
	"slices"
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

// AdapterRow is an adapter that the engine serves, or should, or a base model that is asked for.
type AdapterRow struct {
	Name, Run, Href, Trouble, Load string
	Proof                          string // what its probes said; empty: it has none
	Version                        string
	Served, Base                   bool
	// Of all workers: games in play that were begun with it, requests that wait for an engine that serves it, and
	// requests in flight at this engine; Runs is how many runs these are of.
	Games, Queued, Requests, Runs int
}

// adapterRows is what it serves and what it should serve, with the run and version, how long the load took, and what
// it is used for.
func adapterRows(e enginestate.Engine, runs []runstatus.RunStatus) []AdapterRow {
	var rows []AdapterRow
	names := slices.Clone(e.Adapters)
	for name := range e.Troubles {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, u := range e.Uses {
		if !slices.Contains(names, u.Model) {
			names = append(names, u.Model)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		row := AdapterRow{Name: harmless(name), Trouble: Brief(e.Troubles[name]),
			Base: slices.Contains(e.Models, name)}
		if proof, known := e.Proofs[name]; known {
			row.Proof = proof.String()
		}
		row.Served = row.Base || slices.Contains(e.Adapters, name)
		for _, r := range runs {
			row.published(name, e.ID, r)
		}
		for _, u := range e.Uses {
			if u.Model == name {
				row.Games, row.Queued, row.Requests, row.Runs = row.Games+u.Games, row.Queued+u.Queued,
					row.Requests+u.Requests, row.Runs+1
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// published adds which of a run's versions it is.
func (row *AdapterRow) published(name string, engine rollout.EngineID, r runstatus.RunStatus) {
	for _, p := range r.Policies {
		if p.Adapter != name {
			continue
		}
		row.Run, row.Version = string(r.Spec.Name.Plain()), fmt.Sprint(p.Version)
		row.Href = "../runs/" + row.Run
		if load, known := p.LoadSec[engine]; known {
			row.Load = units.Seconds(load)
		}
	}
}
