package pageview

import (
	"bytes"
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/millrace/millrace/internal/chart"
)

// Panel is one chart of a page with its legend and its table.
type Panel struct {
	ID, Title, Says string
	Legend, Marks   []Legend // of its layers and lines, and of its flags
	Drawing         template.HTML
	Table           Table
	JSON            string // where its table is as JSON
	Whole           bool   // it takes the page's width
}

// Legend is one entry of a panel's legend.
type Legend struct{ Class, Name string }

// Table is a chart's values.
type Table struct {
	Title   string   `json:"title"`
	Unit    string   `json:"unit,omitempty"`
	Columns []string `json:"columns"` // without the first two, what a row is and when it ended
	Rows    []Row    `json:"rows"`
}

// Row is one line of a table. A value that is not known is nil.
type Row struct {
	What   string     `json:"what"`
	At     time.Time  `json:"at"`
	Values []*float64 `json:"values"`
}

// Cells are the values as texts.
func (r Row) Cells() []string {
	cells := make([]string, len(r.Values))
	for i, v := range r.Values {
		if v != nil {
			cells[i] = shown(*v)
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

func (t *Table) add(what string, at time.Time, values ...float64) {
	row := Row{What: what, At: at}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			row.Values = append(row.Values, nil)
			continue
		}
		row.Values = append(row.Values, &v)
	}
	t.Rows = append(t.Rows, row)
}

// tip says a row in a few lines, to be shown where its place is pointed at.
func (t *Table) tip(i int) string {
	row := t.Rows[i]
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

// panel draws a chart.
func (w Window) panel(p Panel, c chart.Panel) Panel {
	c.From, c.To, c.Ticks = sec(w.From), sec(w.To), w.ticks()
	c.Description = p.Title + ". " + p.Says + " The table below has its values."
	p.Table.Title = p.Title
	p.Marks = marksOf(c.Flags)
	p.Drawing = drawn(func(b *bytes.Buffer) error { return c.WriteSVG(b) })
	return p
}
