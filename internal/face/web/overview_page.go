package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

const (
	historyFresh = time.Second
	// patience is how long a page waits for its data; later data is on the next page view.
	patience = 50 * time.Millisecond
)

func (s *Site) overview(ctx context.Context, v *visit) (content, error) {
	var status api.DeploymentStatus
	if err := v.api.get(ctx, "/v1/status", &status); err != nil {
		return content{}, err
	}
	var runs api.RunList
	var engines api.EngineList
	var fleet pageview.FleetSummary
	if status.Redis.Answers { // else what is wrong is all that can be shown
		if err := v.api.get(ctx, "/v1/runs", &runs); err != nil {
			return content{}, err
		}
		if v.grant.CoversAll() {
			if err := v.api.get(ctx, "/v1/engines", &engines); err != nil {
				return content{}, err
			}
			scaled, off, err := scaledFleet(ctx, v)
			if err != nil {
				return content{}, err
			}
			if off == "" {
				fleet = pageview.FleetSummaryOf(scaled)
			}
		}
	}
	view := pageview.OverviewOf(status, s.knownRuns(ctx, v, status, runs.Runs), engines.Engines, v.grant.CoversAll())
	view.Scaled = fleet
	return content{template: "overview", title: "Runs and engines", live: true, data: struct {
		pageview.Overview
		Operates bool
	}{view, v.operates()}}, nil
}

// knownRuns is the overview's runs: the active ones, and the latest others.
func (s *Site) knownRuns(ctx context.Context, v *visit, status api.DeploymentStatus,
	runs []runstatus.RunStatus) []pageview.KnownRun {
	slices.SortStableFunc(runs, func(a, b runstatus.RunStatus) int { return b.StartedAt.Compare(a.StartedAt) })
	known := make([]pageview.KnownRun, len(runs))
	var asking sync.WaitGroup
	over := 0
	for i := range runs {
		one := &known[i]
		one.Status = runs[i]
		if one.Status.State.Over() {
			if over++; over > pageview.MostRunsOver {
				continue
			}
		}
		one.Status.Spec.Name = idOf(runs[i])
		for k := range status.Runs {
			if status.Runs[k].Run == one.Status.Spec.Name || status.Runs[k].Run == one.Status.Spec.Name.Plain() {
				one.Totals = &status.Runs[k]
			}
		}
		asking.Go(func() {
			history, _ := s.deps.History.Of(ctx, one.Status, historyFresh, patience)
			one.Steps = history.Steps
			one.Report, _ = s.report(ctx, one.Status) // the run's page says why there is none
		})
	}
	asking.Wait()
	return known
}

// idOf is the stores' id of a run that the API has named.
func idOf(status runstatus.RunStatus) rollout.RunName {
	if status.ID != "" {
		return status.ID
	}
	return status.Spec.Name
}
