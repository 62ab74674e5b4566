package prom

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// dashboard is what the tests read of deploy/grafana/millrace.json, as Grafana does.
type dashboard struct {
	Panels     []dashboardPanel
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

type dashboardPanel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/grafana/millrace.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// queries are those of the panels and of the choices at the top, by title.
func (d dashboard) queries() map[string][]string {
	all := map[string][]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			all["variable "+v.Name] = append(all["variable "+v.Name], v.Definition)
		}
	}
	return all
}

// Grafana drops a panel of a type that it does not know, draws overlapping ones over each other, and shows figures of
// an unknown unit bare.
func TestDashboardIsAsGrafanaTakesIt(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	ids, titles, cells := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.ID == 0 {
			t.Errorf("%s: the id %d or the title is another panel's", p.Title, p.ID)
		}
		ids[p.ID], titles[p.Title] = true, true
		if !slices.Contains([]string{"row", "stat", "timeseries", "status-history"}, p.Type) {
			t.Errorf("%s: type %s", p.Title, p.Type)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%s lies over %q, or beyond the edge", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		known := slices.Contains([]string{"s", "percentunit", "short", "bytes", "cps"}, p.FieldConfig.Defaults.Unit)
		if p.Type != "row" && (p.Description == "" || len(p.Targets) == 0 || !known) {
			t.Errorf("%s: %d queries, description %q, unit %q", p.Title, len(p.Targets), p.Description,
				p.FieldConfig.Defaults.Unit)
		}
	}
	if len(d.Panels) < 40 {
		t.Errorf("%d panels", len(d.Panels))
	}
}
