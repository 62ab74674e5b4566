package grafana

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"
)

const file = "../../../deploy/grafana/millrace.json"

var update = flag.Bool("update", false, "write deploy/grafana/millrace.json")

// TestDashboardIsCommitted holds the file that people import to what it is made from: make grafana writes it.
func TestDashboardIsCommitted(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(file, Dashboard(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, Dashboard()) {
		t.Error("deploy/grafana/millrace.json is not what it is made from: make grafana writes it again")
	}
}

// model is what the test reads of the dashboard, as Grafana does.
type model struct {
	SchemaVersion int
	Panels        []panelModel
	Templating    struct{ List []struct{ Name string } }
}

type panelModel struct {
	ID          int
	Type, Title string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// Grafana drops a panel of a type that it does not know, draws overlapping ones over each other, and shows figures of
// an unknown unit bare.
var (
	knownTypes = []string{"row", "stat", "timeseries", "status-history"}
	knownUnits = []string{"s", "percentunit", "short", "bytes", "cps"}
	chosen     = regexp.MustCompile(`\$(\w+)`)
)

func TestDashboardIsAsGrafanaTakesIt(t *testing.T) {
	t.Parallel()
	var d model
	if err := json.Unmarshal(Dashboard(), &d); err != nil {
		t.Fatal(err)
	}
	names := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	if d.SchemaVersion != schemaVersion || len(d.Panels) < 40 || len(names) != 4 {
		t.Errorf("schema %d, %d panels, variables %v", d.SchemaVersion, len(d.Panels), names)
	}
	ids, titles, cells := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] || titles[p.Title] || p.ID == 0 {
			t.Errorf("%s: the id %d or the title is another panel's", p.Title, p.ID)
		}
		ids[p.ID], titles[p.Title] = true, true
		if !slices.Contains(knownTypes, p.Type) {
			t.Errorf("%s: type %s", p.Title, p.Type)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= columns {
					t.Fatalf("%s lies over %q, or beyond the edge", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Type != "row" {
			p.check(t, names)
		}
	}
}

func (p panelModel) check(t *testing.T, names []string) {
	t.Helper()
	if p.Description == "" || len(p.Targets) == 0 || !slices.Contains(knownUnits, p.FieldConfig.Defaults.Unit) {
		t.Errorf("%s: %d queries, description %q, unit %q", p.Title, len(p.Targets), p.Description,
			p.FieldConfig.Defaults.Unit)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.Expr == "" || target.LegendFormat == "" || refs[target.RefID] {
			t.Errorf("%s: query %+v", p.Title, target)
		}
		refs[target.RefID] = true
		for _, m := range chosen.FindAllStringSubmatch(target.Expr, -1) {
			if !slices.Contains(names, m[1]) {
				t.Errorf("%s: there is no variable %s", p.Title, m[1])
			}
		}
	}
}
