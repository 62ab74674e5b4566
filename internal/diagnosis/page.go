package diagnosis

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// page is text under construction.
type page struct{ bytes.Buffer }

func (t *page) line(format string, args ...any) {
	fmt.Fprintf(t, format, args...)
	t.WriteByte('\n')
}

// width is where prose is wrapped.
const width = 100

// wrapped writes prose behind a lead; its further lines are indented as far.
func (t *page) wrapped(lead, text string) {
	line := lead
	for _, word := range words(text) {
		if len(line) > len(lead) && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			t.line("%s", line)
			lead = strings.Repeat(" ", len(lead))
			line = lead
		}
		if len(line) > len(lead) {
			line += " "
		}
		line += word
	}
	t.line("%s", line)
}

// words splits prose where a line may end: never between a number and its unit.
func words(text string) []string {
	var out []string
	for _, word := range strings.Fields(text) {
		if unit := strings.Trim(word, ".,;:()"); len(out) > 0 && (unit == "s" || unit == "%") {
			out[len(out)-1] += " " + word
			continue
		}
		out = append(out, word)
	}
	return out
}

func (t *page) list(title string, items []string) {
	for i, item := range items {
		if i > 0 {
			title = ""
		}
		t.wrapped(fmt.Sprintf("%-9s", title), item)
	}
}

// table aligns every column but the first to the right.
func (t *page) table(rows [][]string) { t.columns(rows, func(column int) bool { return column > 0 }) }

func (t *page) columns(rows [][]string, right func(column int) bool) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				b.WriteString("  ")
			}
			if right(i) {
				b.WriteString(pad + cell)
			} else {
				b.WriteString(cell + pad)
			}
		}
		t.line("%s", strings.TrimRight(b.String(), " "))
	}
}
