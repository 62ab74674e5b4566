// Package table writes rows of text as columns for a terminal: names to the left, numbers to the
// right, and never wider than the terminal. It knows no colours and no units; callers put units
// into the headings. text/tabwriter aligns all columns to the same side and never shortens, which is why this exists.
package table

import (
	"io"
	"strings"
	"unicode/utf8"
)

// gap separates columns.
const gap = "  "

// narrowest is what a column may be shortened to.
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
		row[i] = printable(row[i])
	}
	t.rows = append(t.rows, row)
}

// printable keeps a cell on its line and the terminal as it is, whatever a server sent.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0:
			return -1
		}
		return r
	}, s)
}

// Write writes the table, at most width characters wide where shortening its left columns can
// achieve that; 0 means any width.
func (t *Table) Write(w io.Writer, width int) error {
	widths := t.widths()
	if width > 0 {
		t.shorten(widths, width)
	}
	var b strings.Builder
	if t.headed() {
		heads := make([]string, len(t.columns))
		for i, c := range t.columns {
			heads[i] = c.Head
		}
		t.line(&b, heads, widths)
	}
	for _, row := range t.rows {
		t.line(&b, row, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Table) headed() bool {
	for _, c := range t.columns {
		if c.Head != "" {
			return true
		}
	}
	return false
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.Head)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// shorten takes from the widest left column, one character at a time, until the table fits.
// Numbers are never cut: half a number is a wrong number.
func (t *Table) shorten(widths []int, width int) {
	total := len(gap) * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
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
		cell = cut(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.columns[i].Right {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

func cut(cell string, width int) string {
	if utf8.RuneCountInString(cell) <= width {
		return cell
	}
	return string([]rune(cell)[:width-1]) + "…"
}
