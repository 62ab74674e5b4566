package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/tablerow"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/face/web/runhistory"
	"github.com/millrace/millrace/internal/game/gamelist"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// runOf reads what a run's page is made of, in the visitor's name.
func (s *Site) runOf(ctx context.Context, v *visit) (pageview.RunInput, error) {
	var in pageview.RunInput
	if err := v.api.get(ctx, apiclient.RunPath(rollout.RunName(v.r.PathValue("run"))), &in.View); err != nil {
		return in, err
	}
	status := in.View.RunStatus
	status.Spec.Name = idOf(status)
	in.History, in.Fleet = s.deps.History.Of(ctx, status, historyFresh, patience)
	if !v.grant.CoversAll() { // what all runs share is not shown to everybody
		in.Fleet = runhistory.Facts{}
	}
	var err error
	in.Window, in.Zoomed, err = windowOf(v, pageview.WholeOf(status, in.History, time.Now()))
	if err != nil {
		return in, err
	}
	in.Report, err = s.report(ctx, status)
	if err != nil {
		_, in.Failed = statusOf(err)
	}
	return in, nil
}

// windowOf is the stretch of time that a visitor asks for, of the whole that there is.
func windowOf(v *visit, whole pageview.Window) (w pageview.Window, zoomed bool, err error) {
	query := v.r.URL.Query()
	w, zoomed, err = pageview.ParseWindow(query.Get("from"), query.Get("to"), whole)
	if err != nil {
		err = &apiclient.Problem{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	return w, zoomed, err
}

// report is the latest diagnosis of a run; nil: it is being made.
func (s *Site) report(ctx context.Context, status runstatus.RunStatus) (*diagnosis.Report, error) {
	value, err := s.deps.API.LatestDiagnosis(ctx, status, patience)
	if report, made := value.(diagnosis.Report); made {
		return &report, nil
	}
	return nil, err
}

// run is a tab of a run's page.
func (s *Site) run(tab string) func(context.Context, *visit) (content, error) {
	return func(ctx context.Context, v *visit) (content, error) {
		in, err := s.runOf(ctx, v)
		if err != nil {
			return content{}, err
		}
		in.Tab = tab
		view := pageview.RunOf(in)
		view.Workflow = s.deps.Workflows.Run(idOf(in.View.RunStatus))
		if tab == pageview.CurveTab {
			if view.Evaluations, view.Unevaluated, err = evaluationsOfRun(ctx, v); err != nil {
				return content{}, err
			}
		}
		if tab == pageview.GamesTab {
			if view.Games, err = gamesOfRun(ctx, v); err != nil {
				return content{}, err
			}
		}
		c := content{template: "run-" + tab, title: view.Name + ", " + tab, heading: tab, live: !view.Over,
			crumbs: crumbsOf(v, in.View.Spec.Name), data: struct {
				pageview.Run
				Base     string
				Tabs     []string
				Operates bool
			}{view, v.base, pageview.RunTabs(), v.operates()}}
		if tab == pageview.OverviewTab {
			c.title, c.heading, c.crumbs = view.Name, view.Name, c.crumbs[:1]
		}
		return c, nil
	}
}

// evaluationsOfRun is what evaluations of the run tell, and why others cannot be played.
func evaluationsOfRun(ctx context.Context, v *visit) (rows []tablerow.EvaluationRow, notes []string, err error) {
	var list api.EvaluationList
	err = v.api.get(ctx, apiclient.RunPath(rollout.RunName(v.r.PathValue("run")))+"/evaluations", &list)
	for _, r := range list.Evaluations {
		rows = append(rows, tablerow.RowOfEvaluation(r))
	}
	return rows, list.Notes, err
}

// gamesOfRun is the games that a visitor asks for.
func gamesOfRun(ctx context.Context, v *visit) (pageview.GameList, error) {
	asked, query := v.r.URL.Query(), url.Values{"limit": {"50"}}
	for _, key := range []string{"sort", "state", "after"} {
		if value := asked.Get(key); value != "" {
			query.Set(key, value)
		}
	}
	var page gamelist.Page
	err := v.api.get(ctx, apiclient.RunPath(rollout.RunName(v.r.PathValue("run")))+"/games?"+query.Encode(), &page)
	return pageview.GameListOf(page, query), err
}

func (s *Site) step(ctx context.Context, v *visit) (content, error) {
	run, step := rollout.RunName(v.r.PathValue("run")), v.r.PathValue("step")
	path := apiclient.RunPath(run)
	var record steprecord.StepRecord
	if err := v.api.get(ctx, path+"/steps/"+url.PathEscape(step), &record); err != nil {
		return content{}, err
	}
	var timeline *diagnosis.StepTimeline
	why := ""
	if record.Done {
		var found diagnosis.StepTimeline
		err := v.api.get(ctx, fmt.Sprintf("%s/diagnosis?step=%d", path, record.Step), &found)
		var refused *apiclient.Problem
		switch {
		case err == nil:
			timeline = &found
		case errors.As(err, &refused):
			why = refused.Detail
		default:
			return content{}, err
		}
	} else {
		why = "The step is not completed: what the trainer did is known then."
	}
	return content{template: "step", title: fmt.Sprintf("step %d", record.Step), crumbs: crumbsOf(v, run),
		live: !record.Done, data: pageview.StepOf(run, record, timeline, why)}, nil
}
