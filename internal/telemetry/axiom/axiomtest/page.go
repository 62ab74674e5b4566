package axiomtest

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/telemetry/axiom/apl"
)

//go:embed page.html
var pageHTML []byte

//go:embed page.css
var pageCSS []byte

//go:embed page.js
var pageJS []byte

// pageRoutes are the fake's own: a page for a person, and what the page asks. They need no token and meet no fault.
func (s *Server) pageRoutes() {
	s.mux.HandleFunc("GET /{$}", file("text/html; charset=utf-8", pageHTML))
	s.mux.HandleFunc("GET /fake/page.css", file("text/css; charset=utf-8", pageCSS))
	s.mux.HandleFunc("GET /fake/page.js", file("text/javascript; charset=utf-8", pageJS))
	s.mux.HandleFunc("GET /fake/state", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, s.state())
	})
	s.mux.HandleFunc("GET /fake/faults", s.answerFaults)
	s.mux.HandleFunc("POST /fake/faults", s.switchFault)
	s.mux.HandleFunc("POST /fake/query", s.pageQuery)
}

func file(typ string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typ)
		// Charts bring their own style elements.
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; "+
			"style-src 'self' 'unsafe-inline'")
		w.Header().Set("Cache-Control", "no-cache")
		_, _ = w.Write(text) // a browser that has gone needs no page
	}
}

func (s *Server) answerFaults(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]any{"faults": s.Faults()})
}

func (s *Server) switchFault(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name string `json:"name"`
		On   bool   `json:"on"`
	}
	if !readJSON(w, r, &req) {
		return
	}
	if err := s.Switch(req.Name, req.On); err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	s.answerFaults(w, r)
}

// pageState is all that the page shows of itself.
type pageState struct {
	Now         string          `json:"now"`
	Requests    int             `json:"requests"`
	Datasets    []pageDataset   `json:"datasets"`
	Faults      []FaultSwitch   `json:"faults"`
	Dashboards  []pageDashboard `json:"dashboards"`
	Monitors    []monitorState  `json:"monitors"`
	Annotations []annotation    `json:"annotations"` // the newest first
}

type pageDataset struct {
	Name      string     `json:"name"`
	Rows      int        `json:"rows"`
	Dropped   int        `json:"dropped"`
	Fields    int        `json:"fields"`
	Limit     int        `json:"limit"`
	MapFields []string   `json:"map_fields"`
	Last      string     `json:"last"`
	Kinds     []pageKind `json:"kinds"`
}

type pageKind struct {
	Kind string `json:"kind"`
	Rows int    `json:"rows"`
}

type pageDashboard struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Charts      []chartBody `json:"charts"`
}

func (s *Server) state() pageState {
	faults := s.Faults()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	state := pageState{Now: now.Format(time.RFC3339), Requests: s.requests, Faults: faults, Datasets: []pageDataset{},
		Dashboards: []pageDashboard{}, Monitors: []monitorState{}, Annotations: []annotation{}}
	for _, name := range s.names() {
		d := s.datasets[name]
		of := pageDataset{Name: name, Rows: d.came, Dropped: d.dropped, Fields: len(d.fields),
			Limit: s.Limits.withDefaults().Fields, MapFields: d.mapFields, Kinds: []pageKind{}}
		if !d.last.IsZero() {
			of.Last = d.last.Format(time.RFC3339)
		}
		for _, kind := range slices.Sorted(maps.Keys(d.byKind)) {
			of.Kinds = append(of.Kinds, pageKind{kind, d.byKind[kind]})
		}
		state.Datasets = append(state.Datasets, of)
	}
	for _, d := range s.dashboards {
		state.Dashboards = append(state.Dashboards, pageDashboardOf(d.Dashboard))
	}
	for _, m := range s.monitors {
		state.Monitors = append(state.Monitors, s.evaluate(m, now))
	}
	state.Annotations = append(state.Annotations, s.annotations[max(0, len(s.annotations)-20):]...)
	slices.Reverse(state.Annotations)
	return state
}

func pageDashboardOf(doc map[string]any) pageDashboard {
	d := pageDashboard{Charts: []chartBody{}}
	d.Name, _ = doc["name"].(string)
	d.Description, _ = doc["description"].(string)
	charts, _ := doc["charts"].([]any)
	for _, c := range charts {
		c, _ := c.(map[string]any)
		q, _ := c["query"].(map[string]any)
		var body chartBody
		body.ID, _ = c["id"].(string)
		body.Name, _ = c["name"].(string)
		body.Type, _ = c["type"].(string)
		body.Query.APL, _ = q["apl"].(string)
		d.Charts = append(d.Charts, body)
	}
	return d
}

// pageAnswer is a query's answer for a person.
type pageAnswer struct {
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"` // the first hundred
	Count   int        `json:"count"`
	SVG     string     `json:"svg,omitempty"`
}

func (s *Server) pageQuery(w http.ResponseWriter, r *http.Request) {
	var req struct {
		APL   string  `json:"apl"`
		Hours float64 `json:"hours"` // back from now; 0: all
	}
	if !readJSON(w, r, &req) {
		return
	}
	now := time.Now().UTC()
	var from time.Time
	if req.Hours > 0 {
		from = now.Add(-time.Duration(req.Hours * float64(time.Hour)))
	}
	s.mu.Lock()
	table, err := s.answerOf(req.APL, from, time.Time{}, now)
	s.mu.Unlock()
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	out := pageAnswer{Columns: table.Columns, Count: len(table.Rows), Rows: [][]string{}}
	if out.Columns == nil {
		out.Columns = []string{}
	}
	for _, row := range table.Rows[:min(100, len(table.Rows))] {
		cells := make([]string, len(table.Columns))
		for i, c := range table.Columns {
			cells[i] = cell(row[c])
		}
		out.Rows = append(out.Rows, cells)
	}
	if table.Bin > 0 && len(table.Rows) > 1 {
		var b strings.Builder
		if c := overTime(table, now); c.WriteSVG(&b) == nil {
			out.SVG = b.String()
		}
	}
	answer(w, http.StatusOK, out)
}

// cell is a value in a table: short, and numbers with four digits after the point.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
		return fmt.Sprintf("%.4g", v)
	case time.Time:
		return v.Format("15:04:05.000")
	}
	text := fmt.Sprint(v)
	if len([]rune(text)) > 80 {
		text = string([]rune(text)[:79]) + "…"
	}
	return text
}

// mostSeries is how many lines a chart has at most.
const mostSeries = 12

// overTime draws a table with a row for each span of time: a line for each column of numbers, and for each group.
func overTime(t *apl.Table, now time.Time) chart.Chart {
	c := chart.Chart{Width: 640, Height: 300, X: chart.Axis{Label: "time before now", Unit: "min"}}
	at := map[string]int{}
	for _, row := range t.Rows {
		when, ok := row["_time"].(time.Time)
		if !ok {
			continue
		}
		var group []string
		for _, name := range t.Groups {
			if name != "_time" {
				group = append(group, cell(row[name]))
			}
		}
		for _, column := range t.Columns {
			v, ok := row[column].(float64)
			if !ok || slices.Contains(t.Groups, column) {
				continue
			}
			name := strings.TrimSpace(column + " " + strings.Join(group, " "))
			i, known := at[name]
			if !known {
				if len(c.Series) >= mostSeries {
					continue
				}
				i = len(c.Series)
				at[name] = i
				c.Series = append(c.Series, chart.Series{Name: name})
			}
			c.Series[i].Points = append(c.Series[i].Points, chart.Point{X: when.Sub(now).Minutes(), Y: v})
		}
	}
	return c
}
