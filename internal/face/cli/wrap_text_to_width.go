package cli

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/internal/kit/termtext"
)

// paragraph writes a text behind a word, broken at the terminal's width.
func (s *session) paragraph(lead, text string) {
	width := s.width()
	for _, line := range wrapped(text, width-len(lead), width > 0) {
		fmt.Fprintln(s.Stdout, lead+termtext.Line(line))
		lead = strings.Repeat(" ", len(lead))
	}
}

// wrapped is a text in lines of at most so many characters where its words allow that.
func wrapped(text string, width int, wrap bool) []string {
	words := strings.Fields(text)
	if !wrap || len(words) == 0 {
		return []string{strings.Join(words, " ")}
	}
	lines := words[:1:1]
	for _, word := range words[1:] {
		if last := &lines[len(lines)-1]; len(*last)+1+len(word) <= width {
			*last += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// textWidth is where sentences for a person are wrapped.
const textWidth = 100
