package api

import (
	"context"
	"reflect"
	"slices"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/supply"
)

const fleetPath = "/v1/fleet"

// scalingSchema is the JSON schema of a scaling.SettingsChange, without its type.
func scalingSchema() map[string]any {
	var zero scaling.Config
	settable := slices.DeleteFunc(slices.Clone(scaling.Keys.Keys), func(key settings.Key) bool {
		return key.Of(&zero).Kind() == reflect.Struct
	})
	return scaling.Keys.PatchSchema(settable, &zero, map[string]any{"reset": map[string]any{"type": "boolean",
		"description": "true gives all settings back to the configuration, before others are set"}})
}

// scaled is the state of the fleet, or the refusal that it is not scaled.
func (s *Server) scaled(ctx context.Context, _ *struct{}) (supply.View, error) {
	view, is, err := s.deps.Fleet.Scaling(ctx)
	switch {
	case err != nil:
		return view, err
	case !is:
		return view, rollout.Refuse(rollout.NotScaled, "scaling is off: nobody buys engines; they are added with: millrace "+
			"engine add URL, or from a list. To turn it on, give the workers' configuration a section scaling with provider "+
			"and max, and restart them (docs/scaling.md)")
	case !view.EndedAt.IsZero():
		return view, rollout.Refuse(rollout.NotScaled, "scaling is off since %s: no worker's configuration has a section "+
			"scaling any more; the engines that were bought are left as they were (docs/scaling.md)",
			view.EndedAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	return view, nil
}

func (s *Server) changeFleet(ctx context.Context, in *struct{ RawBody []byte }) (supply.View, error) {
	change, err := readSettings(in.RawBody)
	if err != nil {
		return supply.View{}, err
	}
	view, err := s.scaled(ctx, nil)
	if err != nil {
		return view, err
	}
	if view.Settings, view.Set, err = s.deps.SetScaling(ctx, change); err == nil {
		callOf(ctx).after = settingsFacts(view.Settings)
	}
	return view, err
}

// readSettings reads the body of a change, which must not be empty.
func readSettings(body []byte) (scaling.SettingsChange, error) {
	c, err := readDocument[scaling.SettingsChange](body)
	if err != nil {
		return c, err
	}
	if c.Empty() {
		return c, problem(rollout.Invalid, `nothing is changed: want keys such as {"min":2,"max":8}, or {"reset":true}`)
	}
	return c, changeProblem(c.Faults())
}

// settingsFacts lists the settings by their paths, for the audit of a change.
func settingsFacts(c scaling.Config) map[string]string {
	facts := map[string]string{}
	for _, key := range scaling.Keys.Keys {
		if key.Of(&c).Kind() != reflect.Struct {
			facts[key.Path] = key.Text(&c)
		}
	}
	return facts
}
