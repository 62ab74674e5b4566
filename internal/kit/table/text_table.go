// Package table writes rows of text as columns for a terminal: names to the left, numbers to the right, and never wider
// than the terminal. It knows no colours and no units; callers put units into the headings. text/tabwriter aligns all
// columns to the same side and never shortens, which is why this exists. Start reading at Table.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/stat"
	"github.com/millrace/millrace/internal/kit/termtext"
)

// gap separates columns.
const gap = "  "

// narrowest is the least width of a shortened column.
const narrowest = 8

// Column is a heading and the side its cells stand on.
type Column struct {
	Head  string
	Right bool // for numbers
}

// Left is a column of names.
func Left(head string) Column { return Column{Head: head} }

// Right is a column of numbers.
func Right(head string) Column { return Column{Head: head, Right: true} }

// Table is rows under columns. Make one with New.
type Table struct {
	columns []Column
	rows    [][]string
}

// New makes a table with these columns. When all headings are empty, none are written.
func New(columns ...Column) *Table { return &Table{columns: columns} }

// Row adds a row. Cells beyond the columns are dropped, missing ones are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	copy(row, cells)
	for i := range row {
		row[i] = termtext.Line(row[i])
	}
	t.rows = append(t.rows, row)
}

// Write writes the table, at most width cells wide; 0 means any width. Names are shortened where that is
// enough, and else columns are left out, of which a last line tells: numbers before names, the last ones first.
// Without headings, the text of the last column goes on in further lines instead.
func (t *Table) Write(w io.Writer, width int) error {
	var b strings.Builder
	shown, dropped := t, []string(nil)
	if width > 0 {
		shown, dropped = t.narrow(width)
	}
	widths := shown.widths()
	if width > 0 {
		shown.shorten(widths, width)
	}
	if t.headed() {
		heads := make([]string, len(shown.columns))
		for i, c := range shown.columns {
			heads[i] = c.Head
		}
		shown.line(&b, heads, widths)
	}
	for _, row := range shown.rows {
		if !t.headed() {
			shown.folded(&b, row, widths)
			continue
		}
		shown.line(&b, row, widths)
	}
	if len(dropped) > 0 {
		note := fmt.Sprintf("(no room for %s)", strings.Join(dropped, ", "))
		b.WriteString(termtext.Cut(note, width) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// narrow is the table without the columns that cannot stand in the width however much names are shortened, and their
// headings. The first column stays.
func (t *Table) narrow(width int) (*Table, []string) {
	least := t.widths()
	total := len(gap) * (len(least) - 1)
	for i, c := range t.columns {
		if !c.Right {
			least[i] = min(least[i], narrowest)
		}
		total += least[i]
	}
	out := make([]bool, len(t.columns))
	for _, right := range []bool{true, false} {
		for i := len(t.columns) - 1; i > 0 && total > width; i-- {
			if t.columns[i].Right == right {
				out[i] = true
				total -= least[i] + len(gap)
			}
		}
	}
	var dropped []string
	kept := &Table{rows: make([][]string, len(t.rows))}
	for i, c := range t.columns {
		if out[i] {
			dropped = append(dropped, c.Head)
			continue
		}
		kept.columns = append(kept.columns, c)
		for k, row := range t.rows {
			kept.rows[k] = append(kept.rows[k], row[i])
		}
	}
	return kept, dropped
}

// folded writes a row whose last cell may take several lines.
func (t *Table) folded(b *strings.Builder, row []string, widths []int) {
	last := len(row) - 1
	if last < 0 || t.columns[last].Right {
		t.line(b, row, widths)
		return
	}
	cells := slices.Clone(row)
	for rest := row[last]; ; {
		cells[last], rest = termtext.Fold(rest, widths[last])
		t.line(b, cells, widths)
		if rest == "" {
			return
		}
		clear(cells)
	}
}

func (t *Table) headed() bool {
	return slices.ContainsFunc(t.columns, func(c Column) bool { return c.Head != "" })
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = termtext.Width(c.Head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], termtext.Width(row[i]))
		}
	}
	return widths
}

// shorten takes from the widest left column, one cell at a time, until the table fits.
// Numbers are never cut: half a number is a wrong number.
func (t *Table) shorten(widths []int, width int) {
	total := len(gap)*(len(widths)-1) + stat.Sum(slices.Values(widths))
	for ; total > width; total-- {
		widest := -1
		for i, c := range t.columns {
			if !c.Right && widths[i] > narrowest && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) line(b *strings.Builder, cells []string, widths []int) {
	var line strings.Builder
	for i, cell := range cells {
		if i > 0 {
			line.WriteString(gap)
		}
		cell = termtext.Cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-termtext.Width(cell))
		if t.columns[i].Right {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}
