package pageview

import (
	"bytes"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/kit/chart"
)

// Charts is the charts of a page, over one stretch of time.
type Charts struct {
	Window Window
	Zoomed bool
	Panels []Panel
}

// Panel is one chart of a page with its legend and its table.
type Panel struct {
	ID, Title, Says string
	Legend, Marks   []Legend // of its layers and lines, and of its flags
	Drawing         template.HTML
	Table           Table
	Whole           bool // it takes the page's width
}

// Legend is one entry of a panel's legend.
type Legend struct{ Class, Name string }

// Table is a chart's values.
type Table struct {
	Unit    string
	Columns []string // without the first two, what a row is and when it ended
	Rows    []Row
}

// Row is one line of a table. A value that is not a number is not known.
type Row struct {
	What   string
	At     time.Time
	Values []float64
}

// Cells are the values as texts.
func (r Row) Cells() []string {
	cells := make([]string, len(r.Values))
	for i, v := range r.Values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			cells[i] = shown(v)
		}
	}
	return cells
}

// shown is a value in about four digits.
func shown(v float64) string {
	if math.Abs(v) >= 1000 {
		return Count(int64(math.Round(v)))
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64)
}

// tip says a row in a few lines, to be shown where its place is pointed at.
func (t *Table) tip(row Row) string {
	text := row.What + ", " + row.At.UTC().Format("01-02 15:04:05 UTC")
	for k, cell := range row.Cells() {
		if cell != "" && cell != "0" {
			text += "\n" + t.Columns[k] + ": " + cell
			if t.Unit != "" {
				text += " " + t.Unit
			}
		}
	}
	return text
}

// plot is what a chart is made of: layers on top of each other, and lines over them.
type plot struct {
	id, title, says, unit string
	whole                 bool // it takes the page's width
	height                int
	layers, lines         []Legend
	beside                []string // columns of the table that are not drawn
	interval              bool     // of the line: from the first column beside it to the second
	stairs                bool     // a line holds its value for the whole of a stretch
	cut                   bool     // one value far above the others does not flatten them
	parts                 []stretch
	flags                 []chart.Flag
	guides                []chart.Guide
}

// stretch is a stretch of time with a value for each layer, then for each line, then for each column beside them; none:
// nothing is known of it.
type stretch struct {
	from, to float64
	name     string
	values   []float64
}

// draw makes the chart; without a row there is none.
func (w Window) draw(of plot) Panel {
	p := Panel{ID: of.id, Title: of.title, Says: of.says, Whole: of.whole, Legend: slices.Concat(of.layers, of.lines),
		Marks: marksOf(of.flags), Table: Table{Unit: of.unit}}
	for _, l := range p.Legend {
		p.Table.Columns = append(p.Table.Columns, l.Name)
	}
	p.Table.Columns = append(p.Table.Columns, of.beside...)
	c := chart.Panel{From: sec(w.From), To: sec(w.To), Ticks: w.ticks(), Height: of.height, Flags: of.flags,
		Guides: of.guides, Cut: of.cut, Description: p.Title + ". " + p.Says + " The table below has its values."}
	for _, l := range of.layers {
		c.Layers = append(c.Layers, chart.Layer{Name: l.Name, Class: l.Class})
	}
	for i, l := range of.lines {
		c.Lines = append(c.Lines, chart.PanelLine{Name: l.Name, Class: l.Class, Points: of.points(len(of.layers) + i)})
	}
	for _, part := range of.parts {
		if part.values == nil {
			continue
		}
		row := Row{What: part.name, At: at(part.to), Values: part.values}
		p.Table.Rows = append(p.Table.Rows, row)
		c.Columns = append(c.Columns, chart.Column{From: part.from, To: part.to, Values: part.values[:len(of.layers)],
			Tip: p.Table.tip(row)})
	}
	p.Drawing = drawn(func(b *bytes.Buffer) error { return c.WriteSVG(b) })
	return p
}

// points are those of the line whose values stand at a place, with a gap where nothing is known.
func (of *plot) points(place int) []chart.Point {
	var points []chart.Point
	for _, part := range of.parts {
		point := chart.Point{X: (part.from + part.to) / 2, Y: math.NaN()}
		if part.values == nil {
			points = append(points, point)
			continue
		}
		point.Y = part.values[place]
		switch {
		case of.stairs:
			points = append(points, chart.Point{X: part.from, Y: point.Y})
			point.X = part.to
		case of.interval:
			point.Low, point.High = part.values[place+1], part.values[place+2]
		}
		points = append(points, point)
	}
	return points
}

// withValues leaves out the charts of which nothing is known.
func withValues(panels []Panel) []Panel {
	return slices.DeleteFunc(panels, func(p Panel) bool { return len(p.Table.Rows) == 0 })
}

// line is one line of a chart: its name, its colour, and its value at one of many.
type line[T any] struct {
	name, class string
	of          func(T) float64
}

func legends[T any](all []line[T]) []Legend {
	names := make([]Legend, len(all))
	for i, l := range all {
		names[i] = Legend{l.class, l.name}
	}
	return names
}

func values[T any](all []line[T], of T) []float64 {
	each := make([]float64, len(all))
	for i, l := range all {
		each[i] = l.of(of)
	}
	return each
}

// drawn is a drawing as a part of a page. Drawings escape what they are given.
func drawn(draw func(*bytes.Buffer) error) template.HTML {
	var b bytes.Buffer
	if err := draw(&b); err != nil {
		return template.HTML(template.HTMLEscapeString("cannot be drawn: " + err.Error()))
	}
	return template.HTML(b.String())
}
