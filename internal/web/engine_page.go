package web

import (
	"context"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/web/pageview"
	"github.com/millrace/millrace/internal/web/runhistory"
)

func enginePath(id string) string { return "/v1/engines/" + url.PathEscape(id) }

// engineOf reads what an engine's page is made of, in the visitor's name.
func (s *Site) engineOf(ctx context.Context, v *visit) (e rollout.Engine, fleet runhistory.Facts, w pageview.Window,
	zoomed bool, err error) {
	if err = v.api.get(ctx, enginePath(v.r.PathValue("id")), &e); err != nil {
		return e, fleet, w, false, err
	}
	fleet = s.deps.History.Fleet(ctx, historyFresh, patience)
	query := v.r.URL.Query()
	w, zoomed, err = pageview.ParseWindow(query.Get("from"), query.Get("to"), pageview.WholeOfEngine(e.ID, fleet,
		s.deps.Now()))
	if err != nil {
		err = problem{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	return e, fleet, w, zoomed, err
}

func (s *Site) engine(ctx context.Context, v *visit) (content, error) {
	engine, fleet, window, zoomed, err := s.engineOf(ctx, v)
	if err != nil {
		return content{}, err
	}
	var runs struct {
		Runs []rollout.RunStatus `json:"runs"`
	}
	if err := v.api.get(ctx, "/v1/runs", &runs); err != nil {
		return content{}, err
	}
	view := pageview.EngineOf(engine, runs.Runs, fleet, window, s.deps.Now())
	view.Zoomed, view.Workflow = zoomed, s.deps.Workflows.Fleet()
	return content{template: "engine", title: view.ID, crumbs: []crumb{{"engines", v.base + "#engines"}},
		live: "engine " + view.ID, data: struct {
			pageview.Engine
			Operates bool
		}{view, v.operates()}}, nil
}

// engineChart is the values of one chart of an engine.
func (s *Site) engineChart(ctx context.Context, v *visit) (pageview.Table, bool, error) {
	engine, fleet, window, _, err := s.engineOf(ctx, v)
	if err != nil {
		return pageview.Table{}, false, err
	}
	table, known := pageview.EngineChartOf(engine.ID, fleet, window, v.r.PathValue("chart"))
	return table, known, nil
}
