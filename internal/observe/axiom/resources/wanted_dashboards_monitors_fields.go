// Package resources is Millrace's part of an Axiom organization as code: the dataset with its map fields, the
// dashboards and the monitors, and what must change in Axiom so that they are there as this version wants them.
// Applying it twice changes nothing the second time; what people attached to a monitor, its notifiers and whether it
// is switched off, stays.
//
// Start reading at Wanted, then plan_and_apply_changes.go.
package resources

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	for _, name := range slices.Sorted(maps.Keys(fieldTypes)) {
		if fieldTypes[name] == "map" {
			s.MapFields = append(s.MapFields, name)
		}
	}
	s.Dashboards, s.Monitors = dashboards(dataset), monitors(dataset)
	return s
}

// fieldTypes are the fields of all kinds of events with their types: whole numbers where every kind has such.
var fieldTypes = func() (types map[string]string) {
	mustRead(fieldDocument, &types)
	return types
}()

// FullRow is a row with every field of every kind, each with a value of its type, under a kind that no event has: a
// dataset, which learns its fields from rows, learns them all from it.
func FullRow(at time.Time) telemetry.Row {
	r := telemetry.Row{}
	for name, of := range fieldTypes {
		r[name] = map[string]any{"text": "", "integer": 1, "number": 0.5, "true or false": false,
			"map": map[string]any{"any": 0.5}}[of]
	}
	r["_time"], r["kind"], r["event_id"] = at.UTC().Format(time.RFC3339Nano), "schema", "fleet/schema"
	return r
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

// columns of a dashboard.
const columns = 12

// Cell is a chart's place in the columns of a dashboard.
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

// documents are the dashboards, and the monitors in the order of their weight: a plan that allows three has the first
// three. Their queries name the dataset DATASET and stand line by line.
var (
	//go:embed dashboards.json
	dashboardDocuments []byte
	//go:embed monitors.json
	monitorDocuments []byte
	//go:embed fields.json
	fieldDocument []byte
)

// mustRead reads what is part of the program.
func mustRead(document []byte, into any) {
	if err := json.Unmarshal(document, into); err != nil {
		panic(err)
	}
}

func read[T any](documents []byte) (all []T) {
	mustRead(documents, &all)
	return all
}

func named(dataset, title string) string { return fmt.Sprintf("Millrace %s: %s", dataset, title) }

func query(dataset string, lines []string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "DATASET", dataset)
}

// size is how many columns and rows of a dashboard a chart takes, by its type.
var size = map[string]struct{ width, height int }{"Statistic": {3, 3}, "TimeSeries": {6, 5}, "Table": {6, 5}}

// dashboards places each chart beside the last one, or in the next row.
func dashboards(dataset string) []Dashboard {
	var all []Dashboard
	for _, d := range read[struct {
		Title, Description string
		Charts             []struct {
			Chart
			APL []string
		}
	}](dashboardDocuments) {
		board := Dashboard{Name: named(dataset, d.Title), Description: d.Description, RefreshTime: 60, SchemaVersion: 2,
			TimeWindowStart: "qr-now-6h", TimeWindowEnd: "qr-now"}
		x, y, high := 0, 0, 0
		for _, c := range d.Charts {
			of := size[c.Type]
			if x+of.width > columns {
				x, y, high = 0, y+high, 0
			}
			c.Query.APL = query(dataset, c.APL)
			board.Charts = append(board.Charts, c.Chart)
			board.Layout = append(board.Layout, Cell{I: c.ID, X: x, Y: y, W: of.width, H: of.height})
			x, high = x+of.width, max(high, of.height)
		}
		all = append(all, board)
	}
	return all
}

func monitors(dataset string) []Monitor {
	var all []Monitor
	for _, m := range read[struct {
		Monitor
		Title string
		APL   []string
	}](monitorDocuments) {
		m.Name, m.APLQuery, m.NotifierIDs = named(dataset, m.Title), query(dataset, m.APL), []string{}
		all = append(all, m.Monitor)
	}
	return all
}
