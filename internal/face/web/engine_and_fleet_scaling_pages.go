package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/face/apiclient"
	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/supply"
)

func (s *Site) engine(ctx context.Context, v *visit) (content, error) {
	var engine enginestate.Engine
	if err := v.api.get(ctx, apiclient.EnginePath(v.r.PathValue("id")), &engine); err != nil {
		return content{}, err
	}
	fleet := s.deps.History.Fleet(ctx, historyFresh, patience)
	window, zoomed, err := windowOf(v, pageview.WholeOfEngine(engine.ID, fleet, time.Now()))
	if err != nil {
		return content{}, err
	}
	var runs api.RunList
	if err := v.api.get(ctx, "/v1/runs", &runs); err != nil {
		return content{}, err
	}
	view := pageview.EngineOf(engine, runs.Runs, fleet, window, time.Now())
	view.Zoomed, view.Workflow = zoomed, s.deps.Workflows.Fleet()
	return content{template: "engine", title: string(view.ID), crumbs: []crumb{{"engines", v.base + "#engines"}},
		live: true, data: struct {
			pageview.Engine
			Operates bool
		}{view, v.operates()}}, nil
}

// scaledFleet is how the fleet is scaled; off says why it is not.
func scaledFleet(ctx context.Context, v *visit) (view supply.View, off string, err error) {
	err = v.api.get(ctx, "/v1/fleet", &view)
	var none *apiclient.Problem
	if errors.As(err, &none) && none.Status == http.StatusNotFound {
		return view, none.Detail, nil
	}
	return view, "", err
}

func (s *Site) fleet(ctx context.Context, v *visit) (content, error) {
	from, off, err := scaledFleet(ctx, v)
	if err != nil {
		return content{}, err
	}
	view := pageview.Fleet{Off: off}
	if off == "" {
		known := s.deps.History.Fleet(ctx, historyFresh, patience)
		window, zoomed, err := windowOf(v, pageview.WholeOfFleet(known, from, time.Now()))
		if err != nil {
			return content{}, err
		}
		view = pageview.FleetOf(from, known, window, time.Now())
		view.Zoomed, view.Workflow = zoomed, s.deps.Workflows.Fleet()
	}
	return content{template: "fleet", title: "Fleet", crumbs: []crumb{{"engines", v.base + "#engines"}}, live: true,
		data: &view}, nil
}
