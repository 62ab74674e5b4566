// Package resources is Millrace's part of an Axiom organization as code: the dataset with its map fields, the
// dashboards and the monitors, and what must change in Axiom so that they are there as this version wants them.
// Applying it twice changes nothing the second time; what people attached to a monitor, its notifiers and whether it
// is switched off, stays.
//
// Start reading at Wanted, then plan_changes.go.
package resources

import (
	"fmt"

	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// Set is what Millrace wants to be in Axiom.
type Set struct {
	Dataset    string
	MapFields  []string
	Dashboards []Dashboard
	Monitors   []Monitor
}

// Wanted is what this version wants for a dataset.
func Wanted(dataset string) Set {
	s := Set{Dataset: dataset}
	for _, f := range telemetry.Fields() {
		if f.Type == telemetry.MapField {
			s.MapFields = append(s.MapFields, f.Name)
		}
	}
	s.Dashboards = []Dashboard{overview(dataset), starvation(dataset), engines(dataset), learning(dataset)}
	s.Monitors = monitors(dataset)
	return s
}

// Dashboard is a document of Axiom's dashboards' API, without what Axiom adds.
type Dashboard struct {
	Name            string  `json:"name"`
	Owner           string  `json:"owner"` // empty: the organization's
	Description     string  `json:"description"`
	Charts          []Chart `json:"charts"`
	Layout          []Cell  `json:"layout"`
	RefreshTime     int     `json:"refreshTime"`
	SchemaVersion   int     `json:"schemaVersion"`
	TimeWindowStart string  `json:"timeWindowStart"`
	TimeWindowEnd   string  `json:"timeWindowEnd"`
}

// Chart is one answer on a dashboard.
type Chart struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Query Query  `json:"query"`
}

// Query is a chart's question.
type Query struct {
	APL string `json:"apl"`
}

// Cell is a chart's place in the twelve columns of a dashboard.
type Cell struct {
	I string `json:"i"`
	X int    `json:"x"`
	Y int    `json:"y"`
	W int    `json:"w"`
	H int    `json:"h"`
}

// Monitor is a document of Axiom's monitors' API, without what Axiom adds and people change.
type Monitor struct {
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	Type            string   `json:"type"`
	APLQuery        string   `json:"aplQuery"`
	Operator        string   `json:"operator"`
	Threshold       float64  `json:"threshold"`
	AlertOnNoData   bool     `json:"alertOnNoData"`
	NotifyByGroup   bool     `json:"notifyByGroup"`
	Resolvable      bool     `json:"resolvable"`
	NotifierIDs     []string `json:"notifierIds"`
	IntervalMinutes int      `json:"intervalMinutes"`
	RangeMinutes    int      `json:"rangeMinutes"`
	Disabled        bool     `json:"disabled"`
}

// board gathers charts, row by row.
type board struct {
	Dashboard
	x, y, high int
}

func newBoard(title, dataset, description string) *board {
	return &board{Dashboard: Dashboard{
		Name: fmt.Sprintf("Millrace %s: %s", dataset, title), Description: description, RefreshTime: 60, SchemaVersion: 2,
		TimeWindowStart: "qr-now-6h", TimeWindowEnd: "qr-now",
	}}
}

// add places a chart beside the last one, or in the next row.
func (b *board) add(width, height int, id, typ, name, apl string) {
	if b.x+width > 12 {
		b.x, b.y, b.high = 0, b.y+b.high, 0
	}
	b.Charts = append(b.Charts, Chart{ID: id, Name: name, Type: typ, Query: Query{APL: apl}})
	b.Layout = append(b.Layout, Cell{I: id, X: b.x, Y: b.y, W: width, H: height})
	b.x, b.high = b.x+width, max(b.high, height)
}

func (b *board) number(id, name, apl string) { b.add(3, 3, id, "Statistic", name, apl) }
func (b *board) chart(id, name, apl string)  { b.add(6, 5, id, "TimeSeries", name, apl) }
func (b *board) table(id, name, apl string)  { b.add(6, 5, id, "Table", name, apl) }
