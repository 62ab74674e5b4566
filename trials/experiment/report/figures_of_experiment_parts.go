package report

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/chart"
	"github.com/millrace/millrace/trials/experiment"
	"github.com/millrace/millrace/trials/figure"
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
		f := drawingOf(r, i)
		var b bytes.Buffer
		if err := figure.Write(&b, f.Title, f); err != nil {
			return nil, fmt.Errorf("%s: figure of part %s: %w", r.Name, part.Name, err)
		}
		all = append(all, Drawing{part.Name, r.Name + "-" + part.Name + ".svg", b.Bytes()})
	}
	return all, nil
}

func drawingOf(r *experiment.Result, i int) figure.Figure {
	part := r.Experiment.Parts[i]
	f := part.Figure
	metric, _ := experiment.MetricNamed(f.Y)
	drawn := figure.Figure{Title: cmp.Or(f.Title, part.Title), Subtitle: r.Name + where(r, i), YLabel: metric.Head,
		XLabel: strings.ReplaceAll(f.X, "_", " ")}
	drawn.Description = drawn.Title
	xs := points(part, f.X)
	lines := []string{""}
	if f.By != "" {
		lines = points(part, f.By)
	}
	for k, line := range lines {
		one := chart.PanelLine{Name: lineName(f.By, line), Stairs: f.X == "step", Dots: f.Kind == "bars",
			Points: linePoints(r, i, line, xs)}
		if one.Dots { // beside each other, not over each other
			for p := range one.Points {
				one.Points[p].X += 0.6 * (float64(k+1)/float64(len(lines)+1) - 0.5)
			}
		}
		drawn.Lines = append(drawn.Lines, one)
	}
	scaleX(&drawn, xs)
	return drawn
}

// linePoints is the points of one line of a figure, in the order of the cells.
func linePoints(r *experiment.Result, i int, line string, xs []string) []chart.Point {
	f := r.Experiment.Parts[i].Figure
	metric, _ := experiment.MetricNamed(f.Y)
	var all []chart.Point
	for k := range r.Parts[i].Cells {
		cell := &r.Parts[i].Cells[k]
		if !drawn(r, i, cell, line) {
			continue
		}
		if f.X == "step" {
			return stepPoints(cell, f.Y)
		}
		at := slices.IndexFunc(cell.At, func(p experiment.Place) bool { return p.Axis == f.X })
		all = append(all, pointOf(cell, metric, xOf(cell.At[at].Point, xs, f.Kind == "bars")))
	}
	return all
}

// scaleX gives a figure its axis: a place for each name, or numbers.
func scaleX(f *figure.Figure, xs []string) {
	if numeric(xs) && !slices.ContainsFunc(f.Lines, func(l chart.PanelLine) bool { return l.Dots }) {
		for _, line := range f.Lines {
			for _, p := range line.Points {
				f.To = max(f.To, p.X)
			}
		}
		f.Ticks = chart.NumberTicks(0, f.To, 10, false)
		return
	}
	f.From, f.To = -0.5, float64(len(xs))-0.5
	for i, x := range xs {
		f.Ticks = append(f.Ticks, chart.PanelTick{At: float64(i), Text: x})
	}
}

// lineName is what the legend calls a line: a bare number does not say what it is.
func lineName(axis, point string) string {
	if _, _, ok := numberOf(point); ok {
		return strings.ReplaceAll(axis, "_", " ") + " " + point
	}
	return point
}

// numeric reports whether all points are numbers, or all are durations.
func numeric(xs []string) bool {
	unit := ""
	for _, x := range xs {
		_, u, ok := numberOf(x)
		if !ok || unit != "" && u != unit {
			return false
		}
		unit = u
	}
	return true
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

func xOf(point string, xs []string, named bool) float64 {
	if named || !numeric(xs) {
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
