package pageview

import (
	"math"
	"time"

	"github.com/millrace/millrace/internal/chart"
	"github.com/millrace/millrace/internal/units"
)

// stretch is a stretch of time with one value for each line of a chart; nil: nothing is known of it.
type stretch struct {
	from, to float64
	name     string
	values   []float64
}

// parts cuts a window into equal stretches of which nothing is known yet.
func (w Window) parts(n int) []stretch {
	parts := make([]stretch, n)
	width := w.seconds() / float64(n)
	for k := range parts {
		from := sec(w.From) + float64(k)*width
		parts[k] = stretch{from: from, to: from + width, name: units.Seconds(width)}
	}
	return parts
}

// partOf is in which of n equal parts of the window a moment lies; below 0: in none.
func (w Window) partOf(t time.Time, n int) int {
	k := int(math.Floor((sec(t) - sec(w.From)) / w.seconds() * float64(n)))
	if k >= n {
		return -1
	}
	return k
}

// overTime is a chart of lines: names and colours, and what each line was in which stretch.
func (w Window) overTime(p Panel, unit string, names []Legend, parts []stretch, c chart.Panel) Panel {
	p.Table.Unit = unit
	for _, n := range names {
		p.Table.Columns = append(p.Table.Columns, n.Name)
		p.Legend = append(p.Legend, n)
		c.Lines = append(c.Lines, chart.PanelLine{Name: n.Name, Class: n.Class})
	}
	for _, part := range parts {
		for i := range names {
			value := math.NaN()
			if part.values != nil {
				value = part.values[i]
			}
			c.Lines[i].Points = append(c.Lines[i].Points, chart.Point{X: (part.from + part.to) / 2, Y: value})
		}
		if part.values != nil {
			p.Table.add(part.name, at(part.to), part.values...)
			c.Columns = append(c.Columns, chart.Column{From: part.from, To: part.to, Tip: p.Table.tip(len(p.Table.Rows) - 1)})
		}
	}
	return w.panel(p, c)
}
