package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

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

// chart answers the values of one chart as JSON.
func (s *Site) chart(w http.ResponseWriter, r *http.Request) {
	v, ok := s.visit(w, r)
	if !ok {
		return
	}
	in, err := s.runOf(r.Context(), v)
	if err != nil {
		s.sorry(w, v, err)
		return
	}
	table, known := pageview.ChartOf(in, r.PathValue("chart"))
	s.writeTable(w, v, table, known)
}

// writeTable answers a chart's values.
func (s *Site) writeTable(w http.ResponseWriter, v *visit, table pageview.Table, known bool) {
	if !known {
		s.sorry(w, v, problem{Status: http.StatusNotFound, Detail: fmt.Sprintf("there is no chart %q with values",
			strings.ToValidUTF8(v.r.PathValue("chart"), "?"))})
		return
	}
	body, err := json.Marshal(table)
	if err != nil {
		s.sorry(w, v, fmt.Errorf("write chart: %w", err))
		return
	}
	write(w, v.r, http.StatusOK, newMade("application/json", body))
}
