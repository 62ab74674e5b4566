// Package grafana makes the Grafana dashboard of a deployment from its metrics: deploy/grafana/millrace.json. The tests
// of package prom hold every query to the metrics that are exported, and find metrics that no panel shows.
//
// Start reading at Dashboard; rows.go and the files beside it have the panels.
package grafana

import (
	"bytes"
	"encoding/json"
)

// row is panels under one heading.
type row struct {
	title  string
	panels []panel
}

// panel is one question and its answer.
type panel struct {
	title  string
	means  string // what it says, and what to do when it looks bad
	kind   kind
	unit   string // of Grafana's units
	width  int    // of 24 columns
	height int
	stack  bool
	max    float64 // of the axis; 0: as the figures are
	reds   float64 // from here on it is red; 0: never
	greens float64 // from here on it is green, and red below; 0: never
	asks   []query
}

// kind is a type of panel as Grafana calls it.
type kind string

const (
	stat       kind = "stat"
	lines      kind = "timeseries"
	rowsOfTime kind = "status-history" // a line for each series, coloured by its values: more engines than lines can show
)

// query is a PromQL expression and what its series are called.
type query struct{ expr, legend string }

// Dashboard is the dashboard as JSON, indented, as Grafana imports it.
func Dashboard() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document()); err != nil {
		panic(err) // of plain maps, lists and texts
	}
	return b.Bytes()
}

// Queries is every expression of the dashboard by the title of its panel.
func Queries() map[string][]string {
	all := map[string][]string{}
	for _, r := range rows() {
		for _, p := range r.panels {
			for _, q := range p.asks {
				all[p.title] = append(all[p.title], q.expr)
			}
		}
	}
	for _, v := range variables() {
		if v.values != "" {
			all["variable "+v.name] = []string{v.values}
		}
	}
	return all
}

// schemaVersion is that of Grafana 10.4 and 11, which later ones migrate.
const schemaVersion = 39

// document is Grafana's JSON model.
func document() map[string]any {
	return map[string]any{
		"uid": "millrace", "title": "Millrace", "tags": []string{"millrace"}, "editable": true,
		"description": "Runs, buffer, engines and the service. Made from the list of metrics: change " +
			"internal/telemetry/grafana, not this file.",
		"schemaVersion": schemaVersion, "version": 1, "id": nil, "timezone": "", "weekStart": "",
		"graphTooltip": 1, // one crosshair for all panels
		"refresh":      "30s", "time": map[string]string{"from": "now-3h", "to": "now"}, "timepicker": map[string]any{},
		"fiscalYearStartMonth": 0, "liveNow": false, "preload": false,
		"annotations": map[string]any{"list": []any{alertAnnotation()}},
		"links": []any{map[string]any{
			"title": "What to do about an alert", "type": "link", "icon": "doc", "targetBlank": true, "asDropdown": false,
			"includeVars": false, "keepTime": false, "tags": []string{}, "tooltip": "",
			"url": "https://github.com/millrace/millrace/blob/main/docs/alerts.md",
		}},
		"templating": map[string]any{"list": variableModels()},
		"panels":     layOut(rows()),
	}
}

func source() map[string]string {
	return map[string]string{"type": "prometheus", "uid": "${datasource}"}
}

// alertAnnotation marks when alerts of deploy/prometheus fire.
func alertAnnotation() map[string]any {
	return map[string]any{
		"name": "Alerts that fire", "enable": true, "hide": false, "iconColor": "red", "datasource": source(),
		"expr":        `ALERTS{alertname=~"Millrace.*", alertstate="firing"}`,
		"titleFormat": "{{alertname}}", "textFormat": "{{run}} {{engine}} {{sink}} {{code}}", "step": "60s",
	}
}

// variable is a choice at the top of the dashboard.
type variable struct{ name, label, values string }

func variables() []variable {
	return []variable{
		{"datasource", "Prometheus", ""},
		{"run", "Run", "label_values(millrace_step_phase_seconds_total, run)"},
		{"engine", "Engine", "label_values(millrace_engine_tokens_total, engine)"},
	}
}

func variableModels() []any {
	var models []any
	for _, v := range variables() {
		if v.values == "" {
			models = append(models, map[string]any{
				"name": v.name, "label": v.label, "type": "datasource", "query": "prometheus", "regex": "", "hide": 0,
				"refresh": 1, "multi": false, "includeAll": false, "options": []any{}, "current": map[string]any{},
			})
			continue
		}
		models = append(models, map[string]any{
			"name": v.name, "label": v.label, "type": "query", "datasource": source(), "definition": v.values,
			"query":   map[string]any{"query": v.values, "refId": "StandardVariableQuery"},
			"refresh": 2, "sort": 3, "multi": true, "includeAll": true, "allValue": ".*", "regex": "", "hide": 0,
			"options": []any{}, "current": map[string]any{"text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return models
}
