package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/internal/enginepool"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/web/pageview"
	"github.com/millrace/millrace/internal/web/runhistory"
)

const (
	fleetPath = "/v1/fleet"
	fleetPage = "fleet" // from the root
)

// scaledFleet is how the fleet is scaled; off says why it is not.
func scaledFleet(ctx context.Context, v *visit) (view enginepool.View, off string, err error) {
	err = v.api.get(ctx, fleetPath, &view)
	var none problem
	if errors.As(err, &none) && none.Status == http.StatusNotFound {
		return view, none.Detail, nil
	}
	return view, "", err
}

// fleetOf reads what the fleet's page is made of, in the visitor's name.
func (s *Site) fleetOf(ctx context.Context, v *visit) (view enginepool.View, off string, fleet runhistory.Facts,
	w pageview.Window, zoomed bool, err error) {
	if view, off, err = scaledFleet(ctx, v); err != nil || off != "" {
		return view, off, fleet, w, false, err
	}
	fleet = s.deps.History.Fleet(ctx, historyFresh, patience)
	query := v.r.URL.Query()
	w, zoomed, err = pageview.ParseWindow(query.Get("from"), query.Get("to"),
		pageview.WholeOfFleet(fleet, view, s.deps.Now()))
	if err != nil {
		err = problem{Status: http.StatusBadRequest, Detail: err.Error()}
	}
	return view, "", fleet, w, zoomed, err
}

func (s *Site) fleet(ctx context.Context, v *visit) (content, error) {
	from, off, fleet, window, zoomed, err := s.fleetOf(ctx, v)
	if err != nil {
		return content{}, err
	}
	view := pageview.FleetOff(off)
	if off == "" {
		view = pageview.FleetOf(from, fleet, window, s.deps.Now())
		view.Zoomed, view.Workflow = zoomed, s.deps.Workflows.Fleet()
	}
	return content{template: "fleet", title: "Fleet", crumbs: []crumb{{"engines", v.base + "#engines"}}, live: "fleet",
		data: struct {
			pageview.Fleet
			Operates bool
		}{view, v.operates()}}, nil
}

// fleetChart is the values of one chart of the fleet.
func (s *Site) fleetChart(ctx context.Context, v *visit) (pageview.Table, bool, error) {
	from, off, fleet, window, _, err := s.fleetOf(ctx, v)
	if err == nil && off != "" {
		err = problem{Status: http.StatusNotFound, Detail: off}
	}
	if err != nil {
		return pageview.Table{}, false, err
	}
	table, known := pageview.FleetChartOf(from, fleet, window, v.r.PathValue("chart"))
	return table, known, nil
}

// setFleet changes settings of scaling: first they are typed, then what they change is shown.
func setFleet(ctx context.Context, v *visit) (action, error) {
	view, off, err := scaledFleet(ctx, v)
	if err == nil && off != "" {
		err = problem{Status: http.StatusNotFound, Detail: off}
	}
	if err != nil {
		return action{}, err
	}
	text := strings.TrimSpace(v.r.FormValue("set"))
	a := action{Title: "Change how the fleet is scaled", Button: "Show what will change", Ask: true, back: fleetPage,
		method: http.MethodPatch, path: fleetPath,
		Fields: []field{{Name: "set", Label: "Changes, such as min=2 max=8", Value: text, Kind: "text",
			Hint: "KEY= gives a key back to the configuration. Keys: " + strings.Join(scalingKeys(), ", ")}}}
	if text == "" {
		return a, nil
	}
	change, err := scaling.ParseSettings(strings.Fields(text))
	if err == nil {
		err = settable(change).Check(view.Settings)
	}
	if err != nil {
		return a, problem{Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	}
	a.Button, a.body, a.Ask = "Change it", change, false
	a.Fields = []field{{Name: "set", Value: text, Kind: "hidden"}} // what is done is what was shown
	a.Says = append(settingsChanged(view.Settings, change), "It holds until it is given back, or the workers' "+
		"configuration of scaling changes. Engines that are no longer wanted are drained first: no game is lost.")
	return a, nil
}

// settable is what a change sets, without what it gives back.
func settable(c scaling.SettingsChange) scaling.Overrides { return scaling.Overrides{}.After(c) }

// settingsChanged says what a change makes of each setting.
func settingsChanged(before scaling.Config, c scaling.SettingsChange) []string {
	after := settable(c).Over(before)
	var says []string
	for _, key := range scaling.Keys.Keys {
		value, given := c.Set[key.Path]
		switch {
		case given && value == nil:
			says = append(says, fmt.Sprintf("%s: %s, which an operator has set, becomes what the configuration says", key.Path,
				key.Text(&before)))
		case given:
			says = append(says, fmt.Sprintf("%s: %s becomes %s", key.Path, key.Text(&before), key.Text(&after)))
		}
	}
	return says
}

// scalingKeys are the settings that may be changed.
func scalingKeys() []string {
	var keys []string
	for _, key := range scaling.Keys.Keys {
		if value := key.Text(&scaling.Config{}); !strings.HasPrefix(value, "{") {
			keys = append(keys, key.Path)
		}
	}
	return keys
}

// resetFleet gives all settings back to the configuration.
func resetFleet(ctx context.Context, v *visit) (action, error) {
	view, off, err := scaledFleet(ctx, v)
	if err == nil && off != "" {
		err = problem{Status: http.StatusNotFound, Detail: off}
	}
	if err != nil {
		return action{}, err
	}
	a := action{Title: "Scale the fleet as configured", back: fleetPage}
	if len(view.Set) == 0 {
		a.Says, a.Ask = []string{"It is: no operator has set anything."}, true
		return a, nil
	}
	return action{Title: a.Title, Button: "Give all settings back", back: fleetPage,
		method: http.MethodPatch, path: fleetPath, body: scaling.SettingsChange{Reset: true},
		Says: []string{fmt.Sprintf("What operators have set (%s) becomes what the workers' configuration says.",
			strings.Join(view.Set, ", ")), "Engines that are no longer wanted are drained first: no game is lost."}}, nil
}
