package web

import (
	"context"
	"net/http"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/web/pageview"
	"github.com/millrace/millrace/internal/web/runhistory"
)

// runOf reads what a run's page is made of, in the visitor's name.
func (s *Site) runOf(ctx context.Context, v *visit) (pageview.RunInput, error) {
	var in pageview.RunInput
	if err := v.api.get(ctx, runPath(rollout.RunName(v.r.PathValue("run"))), &in.View); err != nil {
		return in, err
	}
	status := in.View.RunStatus
	status.Spec.Name = idOf(status)
	in.History, in.Fleet = s.deps.History.Of(ctx, status, historyFresh, patience)
	if !v.grant.CoversAll() { // what all runs share is not shown to everybody
		in.Fleet = runhistory.Facts{}
	}
	whole := pageview.WholeOf(status, in.History, s.deps.Now())
	query := v.r.URL.Query()
	var err error
	in.Window, in.Zoomed, err = pageview.ParseWindow(query.Get("from"), query.Get("to"), whole)
	if err != nil {
		return in, problem{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	report, known, failed := s.reports.of(ctx, v.api, status, patience)
	switch {
	case known:
		in.Report = &report
	case failed != nil:
		_, in.Failed = statusOf(failed)
	}
	return in, nil
}

func (s *Site) run(ctx context.Context, v *visit) (content, error) {
	in, err := s.runOf(ctx, v)
	if err != nil {
		return content{}, err
	}
	view := pageview.RunOf(in)
	view.Workflow = s.deps.Workflows.Run(idOf(in.View.RunStatus))
	c := content{template: "run", title: view.Name, crumbs: []crumb{{"runs", v.base}}, data: struct {
		pageview.Run
		Base     string
		Operates bool
	}{view, v.base, v.operates()}}
	if !view.Over {
		c.live = "run " + view.Name
	}
	return c, nil
}

// runChart is the values of one chart of a run.
func (s *Site) runChart(ctx context.Context, v *visit) (pageview.Table, bool, error) {
	in, err := s.runOf(ctx, v)
	if err != nil {
		return pageview.Table{}, false, err
	}
	table, known := pageview.ChartOf(in, v.r.PathValue("chart"))
	return table, known, nil
}
