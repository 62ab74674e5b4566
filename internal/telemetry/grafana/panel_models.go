package grafana

import "slices"

// columns is the width of a dashboard.
const columns = 24

// layOut places panels from left to right and from top to bottom, each row under its heading.
func layOut(rows []row) []any {
	var models []any
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, r := range rows {
		models = append(models, map[string]any{
			"id": next(), "type": "row", "title": r.title, "collapsed": false, "panels": []any{},
			"gridPos": position(0, y, columns, 1),
		})
		y++
		x, tallest := 0, 0
		for _, p := range r.panels {
			if x+p.width > columns {
				x, y, tallest = 0, y+tallest, 0
			}
			model := p.model()
			model["id"], model["gridPos"] = next(), position(x, y, p.width, p.height)
			models = append(models, model)
			x, tallest = x+p.width, max(tallest, p.height)
		}
		y += tallest
	}
	return models
}

func position(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

func (p panel) model() map[string]any {
	var targets []any
	for i, q := range p.asks {
		targets = append(targets, map[string]any{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": q.expr, "legendFormat": q.legend,
			"editorMode": "code", "range": p.kind != stat, "instant": p.kind == stat,
		})
	}
	defaults := map[string]any{
		"unit": p.unit, "min": 0, "noValue": "none", "mappings": []any{}, "thresholds": p.thresholds(),
		"color": map[string]any{"mode": p.colour()}, "custom": p.custom(),
	}
	if p.max > 0 {
		defaults["max"] = p.max
	}
	return map[string]any{
		"type": string(p.kind), "title": p.title, "description": p.means, "datasource": source(), "targets": targets,
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": p.overrides()}, "options": p.options(),
	}
}

func (p panel) thresholds() map[string]any {
	steps := []any{map[string]any{"color": "green", "value": nil}}
	switch {
	case p.reds > 0:
		steps = append(steps, map[string]any{"color": "red", "value": p.reds})
	case p.greens > 0:
		steps = []any{map[string]any{"color": "red", "value": nil}, map[string]any{"color": "green", "value": p.greens}}
	case p.kind == stat:
		steps = []any{map[string]any{"color": "text", "value": nil}}
	}
	return map[string]any{"mode": "absolute", "steps": steps}
}

func (p panel) colour() string {
	switch p.kind {
	case stat:
		return "thresholds"
	case rowsOfTime:
		return "continuous-blues"
	case lines:
	}
	return "palette-classic"
}

// custom is how lines are drawn; filled where they are parts of a whole.
func (p panel) custom() map[string]any {
	switch p.kind {
	case lines:
		stacking, fill := "none", 0
		if p.stack {
			stacking, fill = "normal", 70
		}
		return map[string]any{
			"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": fill, "showPoints": "auto",
			"spanNulls": false, "stacking": map[string]any{"mode": stacking, "group": "A"}, "axisPlacement": "auto",
		}
	case rowsOfTime:
		return map[string]any{"fillOpacity": 80, "lineWidth": 0}
	case stat:
	}
	return map[string]any{}
}

func (p panel) options() map[string]any {
	legend := map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}
	switch p.kind {
	case stat:
		return map[string]any{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case rowsOfTime:
		legend["showLegend"] = false
		return map[string]any{"legend": legend, "showValue": "never", "rowHeight": 0.9, "colWidth": 1,
			"tooltip": map[string]any{"mode": "single", "sort": "none"}}
	case lines:
	}
	return map[string]any{"legend": legend, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}}
}

// colours of series by what they are called, which have the same meaning in every panel. What a trainer waits is
// orange, so that added time is what the eye sees.
var colours = []struct{ legend, series, colour string }{
	{"{{phase}}", "wait", "orange"}, {"{{phase}}", "train", "blue"}, {"{{phase}}", "ref_logprobs", "light-blue"},
	{"{{phase}}", "load", "super-light-blue"}, {"{{phase}}", "publish", "#9e9e9e"},
	{"{{phase}}", "checkpoint", "#757575"}, {"{{phase}}", "other", "#bdbdbd"},
	{"{{reason}}", "adapter_load", "purple"}, {"{{reason}}", "stale", "orange"}, {"{{result}}", "failed", "red"},
	{"{{state}}", "lost", "red"}, {"{{state}}", "quarantined", "orange"}, {"target", "target", "red"},
}

func (p panel) overrides() []any {
	overrides := []any{}
	for _, c := range colours {
		has := slices.ContainsFunc(p.asks, func(q query) bool { return q.legend == c.legend })
		if p.kind != lines || !has {
			continue
		}
		fixed := map[string]any{"mode": "fixed", "fixedColor": c.colour}
		overrides = append(overrides, map[string]any{
			"matcher":    map[string]any{"id": "byName", "options": c.series},
			"properties": []any{map[string]any{"id": "color", "value": fixed}},
		})
	}
	return overrides
}
