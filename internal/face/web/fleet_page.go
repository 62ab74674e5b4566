package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/web/pageview"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// scaledFleet is how the fleet is scaled; off says why it is not.
func scaledFleet(ctx context.Context, v *visit) (view supply.View, off string, err error) {
	err = v.api.get(ctx, "/v1/fleet", &view)
	var none problem
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
