package web

import (
	"context"
	"net/url"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/web/pageview"
)

func enginePath(id string) string { return "/v1/engines/" + url.PathEscape(id) }

func (s *Site) engine(ctx context.Context, v *visit) (content, error) {
	var engine rollout.Engine
	if err := v.api.get(ctx, enginePath(v.r.PathValue("id")), &engine); err != nil {
		return content{}, err
	}
	var runs struct {
		Runs []rollout.RunStatus `json:"runs"`
	}
	if err := v.api.get(ctx, "/v1/runs", &runs); err != nil {
		return content{}, err
	}
	view := pageview.EngineOf(engine, runs.Runs, s.deps.History.Fleet(ctx, historyFresh, patience), s.deps.Now())
	return content{template: "engine", title: view.ID, crumbs: []crumb{{"engines", v.base + "#engines"}},
		live: "engine " + view.ID, data: struct {
			pageview.Engine
			Operates bool
		}{view, v.operates()}}, nil
}
