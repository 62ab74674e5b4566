package api_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

// scaler stands in for the workflow that scales the fleet.
type scaler struct {
	configured scaling.Config
	set        scaling.Overrides
}

func (s *scaler) change(_ context.Context, c scaling.SettingsChange) (scaling.Config, []string, error) {
	after := s.set.After(c)
	if err := after.Check(s.configured); err != nil {
		return scaling.Config{}, nil, rollout.Refuse(rollout.Invalid, "%v", err)
	}
	s.set = after
	return after.Over(s.configured), after.Names(), nil
}

func scaledView() supply.View {
	return supply.View{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Provider: "process", Wanted: 3,
		Settings: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 4},
		Actual:   scaling.Engines{Starting: 1, Ready: 2}, Why: "demo is capacity-bound",
		Engines: []supply.Engine{{ID: "scaled-1", State: enginestate.EngineReady}},
	}
}

// A fleet that is not scaled says so and what would change that; of one that is, a scaler reads `wanted`.
func TestFleet(t *testing.T) {
	t.Parallel()
	s := &scaler{configured: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 4}}
	f := serve(t, func(_ *api.Config, d *api.Deps) { d.SetScaling = s.change })
	for _, method := range []string{"GET", "PATCH"} {
		a := f.want(f.do(method, "/v1/fleet", `{"min":2}`), 404)
		if !strings.Contains(string(a.body), "not-scaled") || !strings.Contains(string(a.body), "docs/scaling.md") {
			t.Errorf("%s of a fleet that is not scaled: %s", method, a.body)
		}
	}
	view := scaledView()
	if err := f.fleet.SaveScaling(context.Background(), view); err != nil {
		t.Fatal(err)
	}
	var got supply.View
	f.want(f.do("GET", "/v1/fleet", ""), 200).into(&got)
	if got.Wanted != 3 || got.Actual != view.Actual || got.Why != view.Why || len(got.Engines) != 1 {
		t.Errorf("got %+v", got)
	}
	f.want(f.do("PATCH", "/v1/fleet", `{"min":2,"max":8,"queue":{"target_inputs":4}}`), 200).into(&got)
	if got.Settings.Min != 2 || got.Settings.Max != 8 || got.Settings.Queue.TargetInputs != 4 || len(got.Set) != 3 {
		t.Errorf("after a change: %+v, set %v", got.Settings, got.Set)
	}
	var back supply.View
	f.want(f.do("PATCH", "/v1/fleet", `{"max":null,"queue":null}`), 200).into(&back)
	if back.Settings.Max != 4 || back.Settings.Queue.TargetInputs != 0 || !slices.Equal(back.Set, []string{"min"}) {
		t.Errorf("after keys were given back: %+v, set %v", back.Settings, back.Set)
	}
	f.want(f.do("PATCH", "/v1/fleet", `{"max":8}`), 200)
	f.want(f.do("PATCH", "/v1/fleet", `{"reset":true}`), 200).into(&got)
	if got.Settings.Max != 4 {
		t.Errorf("after a reset: %+v", got.Settings)
	}
	for _, bad := range []struct {
		body   string
		status int
		says   string
	}{
		{`{}`, 422, "nothing is changed"},
		{`{"max":0}`, 422, "max"},
		{`{"mx":3}`, 422, "body.mx"},
		{`{"mx":null,"queue":{"y":null}}`, 422, "body.queue.y"},
		{`[1]`, 422, "JSON object"},
		{`{`, 400, ""},
	} {
		if a := f.want(f.do("PATCH", "/v1/fleet", bad.body), bad.status); !strings.Contains(string(a.body), bad.says) {
			t.Errorf("%s: %s", bad.body, a.body)
		}
	}
	view.EndedAt = view.At
	if err := f.fleet.SaveScaling(context.Background(), view); err != nil {
		t.Fatal(err)
	}
	if a := f.want(f.do("GET", "/v1/fleet", ""), 404); !strings.Contains(string(a.body), "off since 2026-01-02") {
		t.Errorf("after its end: %s", a.body)
	}
}

// Who changed how the fleet is scaled is kept, with what was there before; readers may not.
func TestFleetChangesAreAudited(t *testing.T) {
	t.Parallel()
	s := &scaler{configured: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 4}}
	events := make(chan telemetry.Event, 8)
	f := serve(t, func(c *api.Config, d *api.Deps) {
		d.SetScaling = s.change
		d.Tell = telemetry.EmitterFunc(func(e telemetry.Event) { events <- e })
		c.Access = access.NewGrants(
			access.Grant{Name: "ops", Role: access.Operator, Hash: access.HashOf("operator-token-1")},
			access.Grant{Name: "eyes", Role: access.Reader, Runs: []string{"*"}, Hash: access.HashOf("reader-token-123")})
	})
	if err := f.fleet.SaveScaling(context.Background(), scaledView()); err != nil {
		t.Fatal(err)
	}
	f.want(f.do("PATCH", "/v1/fleet", `{"max":8}`, "Authorization", "Bearer reader-token-123"), 403)
	<-events
	f.want(f.do("PATCH", "/v1/fleet", `{"max":8}`, "Authorization", "Bearer operator-token-1"), 200)
	a, is := (<-events).Body.(telemetry.Audit)
	if !is || a.Who != "ops" || a.Target != "fleet" || a.Before["max"] != "4" || a.After["max"] != "8" ||
		len(a.After) != 1 {
		t.Errorf("audited as %+v", a)
	}
	f.want(f.do("GET", "/v1/fleet", "", "Authorization", "Bearer reader-token-123"), 200)
}
