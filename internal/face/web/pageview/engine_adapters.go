package pageview

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/internal/kit/units"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// AdapterRow is an adapter that the engine serves, or should, or a base model that is asked for.
type AdapterRow struct {
	Name, Run, Href, Trouble, Load string
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
