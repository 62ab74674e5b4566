package reporttext

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/millrace/millrace/internal/kit/table"
)

// page is text under construction.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p, format, args...)
	p.WriteByte('\n')
}

// table writes a table as wide as it is: a Buffer's Write never fails.
func (p *page) table(t *table.Table) { _ = t.Write(p, 0) }

// folded writes a table without headings no wider than prose: the text of its last column takes several lines.
func (p *page) folded(t *table.Table) { _ = t.Write(p, width) }

// width is where prose is wrapped.
const width = 100

// wrapped writes prose behind a lead; its further lines are indented as far.
func (p *page) wrapped(lead, text string) {
	line := lead
	for _, word := range words(text) {
		if len(line) > len(lead) && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			p.line("%s", line)
			lead = strings.Repeat(" ", len(lead))
			line = lead
		}
		if len(line) > len(lead) {
			line += " "
		}
		line += word
	}
	p.line("%s", line)
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

// titleWidth is how far items stand from the left.
const titleWidth = 9

// list writes items below each other, beside their title.
func (p *page) list(title string, items []string) {
	for i, item := range items {
		if i > 0 {
			title = ""
		}
		lead := fmt.Sprintf("%-*s", titleWidth, title)
		if strings.HasPrefix(item, "millrace ") { // a command: it is copied as it stands
			p.line("%s%s", lead, item)
			continue
		}
		p.wrapped(lead, item)
	}
}
