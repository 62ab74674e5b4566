package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/experiment"
)

// Drawing is one figure.
type Drawing struct {
	Part string
	File string // name for its SVG
	SVG  []byte
}

// Drawings draws the parts that say how.
func Drawings(r *experiment.Result) ([]Drawing, error) {
	var all []Drawing
	for i, part := range r.Experiment.Parts {
		if part.Figure.Kind == "" {
			continue
		}
		c := drawingOf(r, i)
		var b bytes.Buffer
		if err := c.WriteSVG(&b); err != nil {
			return nil, fmt.Errorf("%s: figure of part %s: %w", r.Name, part.Name, err)
		}
		all = append(all, Drawing{part.Name, r.Name + "-" + part.Name + ".svg", b.Bytes()})
	}
	return all, nil
}

func drawingOf(r *experiment.Result, i int) chart.Chart {
	part := r.Experiment.Parts[i]
	f := part.Figure
	metric, _ := experiment.MetricNamed(f.Y)
	c := chart.Chart{Title: cmp.Or(f.Title, part.Title), Subtitle: r.Name + where(r, i), Y: axisOf(metric)}
	c.Y.Log, c.Y.FromZero = f.LogY, !f.LogY
	mark := chart.Line
	if f.Kind == "bars" {
		mark = chart.Bars
	}
	var xs []string
	if f.X != "step" {
		xs = points(part, f.X)
		c.X = xAxis(f.X, xs, mark)
	} else {
		c.X = chart.Axis{Label: "step", Whole: true}
		mark = chart.Stairs
		if strings.HasPrefix(f.Y, "step_") {
			c.Y.Label = "step time"
		}
	}
	lines := []string{""}
	if f.By != "" {
		lines = points(part, f.By)
	}
	for _, line := range lines {
		s := chart.Series{Name: lineName(f.By, line), Mark: mark}
		for k := range r.Parts[i].Cells {
			cell := &r.Parts[i].Cells[k]
			if !drawn(r, i, cell, line) {
				continue
			}
			if f.X == "step" {
				s.Points = stepPoints(cell, f.Y)
				break
			}
			at := slices.IndexFunc(cell.At, func(p experiment.Place) bool { return p.Axis == f.X })
			s.Points = append(s.Points, pointOf(cell, metric, xOf(cell.At[at].Point, xs, c.X)))
		}
		c.Series = append(c.Series, s)
	}
	return c
}

// lineName is what the legend calls a line: a bare number does not say what it is.
func lineName(axis, point string) string {
	if _, _, ok := numberOf(point); ok {
		return strings.ReplaceAll(axis, "_", " ") + " " + point
	}
	return point
}

func axisOf(m experiment.Metric) chart.Axis {
	label, unit, _ := strings.Cut(strings.ToLower(m.Head), " (")
	unit = strings.TrimSuffix(unit, ")")
	if m.Share {
		unit = "%"
	}
	return chart.Axis{Label: label, Unit: unit}
}

// xAxis has numbers where all points are numbers or durations, and else names.
func xAxis(name string, xs []string, mark chart.Mark) chart.Axis {
	axis := chart.Axis{Label: strings.ReplaceAll(name, "_", " ")}
	unit := ""
	for _, x := range xs {
		_, u, ok := numberOf(x)
		if !ok || unit != "" && u != unit || mark == chart.Bars {
			axis.Categories = xs
			return axis
		}
		unit = u
	}
	if unit == "s" {
		axis.Unit = unit
	}
	return axis
}

// numberOf is a point as a number: "5s" is 5 seconds.
func numberOf(point string) (x float64, unit string, ok bool) {
	if x, err := strconv.ParseFloat(strings.TrimPrefix(point, "x"), 64); err == nil {
		return x, "none", true
	}
	if d, err := time.ParseDuration(point); err == nil {
		return d.Seconds(), "s", true
	}
	return 0, "", false
}

func xOf(point string, xs []string, axis chart.Axis) float64 {
	if axis.Categories != nil {
		return float64(slices.Index(xs, point))
	}
	x, _, _ := numberOf(point)
	return x
}

func points(part experiment.Part, axis string) []string {
	for _, a := range part.Axes {
		if a.Name == axis {
			return a.Names()
		}
	}
	return nil
}

func pointOf(cell *experiment.CellResult, m experiment.Metric, x float64) chart.Point {
	f, _ := cell.Figure(m.Name)
	scale := 1.0
	if m.Share {
		scale = 100
	}
	p := chart.Point{X: x, Y: f.Mean * scale}
	if f.Known() && f.Half > 0 {
		p.Low, p.High = (f.Mean-f.Half)*scale, (f.Mean+f.Half)*scale
	}
	return p
}

// stepPoints is a metric that is numbered by steps, such as step_0, step_1.
func stepPoints(cell *experiment.CellResult, metric string) []chart.Point {
	family := strings.TrimRight(metric, "0123456789")
	var out []chart.Point
	for step := 0; ; step++ {
		f, ok := cell.Figure(family + strconv.Itoa(step))
		if !ok {
			return out
		}
		out = append(out, chart.Point{X: float64(step), Y: f.Mean})
	}
}

// fixed is the points at which the other axes of a figure stand.
func fixed(part experiment.Part) []experiment.Place {
	var out []experiment.Place
	for _, axis := range part.Axes {
		if axis.Name == part.Figure.X || axis.Name == part.Figure.By {
			continue
		}
		point := axis.Names()[0]
		for _, place := range strings.Split(part.Figure.Where, ",") {
			if name, at, ok := strings.Cut(place, "="); ok && strings.TrimSpace(name) == axis.Name {
				point = strings.TrimSpace(at)
			}
		}
		out = append(out, experiment.Place{Axis: axis.Name, Point: point})
	}
	return out
}

// where is what a figure's heading says of the axes that it does not show.
func where(r *experiment.Result, i int) string {
	text := ""
	for _, at := range fixed(r.Experiment.Parts[i]) {
		text += ", " + strings.ReplaceAll(at.Axis, "_", " ") + " " + at.Point
	}
	return text
}

// drawn reports whether a cell belongs to a line of the figure.
func drawn(r *experiment.Result, i int, cell *experiment.CellResult, line string) bool {
	part := r.Experiment.Parts[i]
	want := fixed(part)
	if part.Figure.By != "" {
		want = append(want, experiment.Place{Axis: part.Figure.By, Point: line})
	}
	for _, at := range want {
		if !slices.Contains(cell.At, at) {
			return false
		}
	}
	return true
}
