// Package termtext makes text that comes from models, engines, environments and trainers harmless on a terminal: no
// character of it moves the cursor, changes colours, sets a title, writes to the clipboard or turns the line around.
// What a terminal would obey is shown as a character that stands for it. It also says how much room text takes there:
// an ideograph has two cells, a combining mark none. Start reading at Line.
package termtext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Line keeps a text on its line: breaks and tabs become spaces, and what a terminal would obey is shown.
func Line(s string) string {
	if plain(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\t', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
			return ' '
		}
		return shown(r)
	}, s)
}

// Block keeps a text's lines, with its tabs as spaces, and shows what a terminal would obey. A carriage return before a
// line break is part of the break.
func Block(s string) string {
	if plain(s) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n':
			return r
		case '\t':
			return ' '
		case '\u2028', '\u2029':
			return '\n'
		}
		return shown(r)
	}, s)
}

// plain reports whether a text is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// shown is a character as a terminal may be given it.
func shown(r rune) rune {
	switch {
	case r < ' ':
		return '\u2400' + r // ESC as ␛
	case r == 0x7f:
		return '\u2421'
	case Obeyed(r), r == utf8.RuneError:
		return unicode.ReplacementChar
	}
	return r
}

// Obeyed reports whether a terminal acts on a character instead of showing it: control characters of both sets,
// characters that change the direction of writing, and invisible ones.
func Obeyed(r rune) bool {
	switch {
	case unicode.IsControl(r):
		return true
	case r == '\u200d', r == '\u200c': // of scripts and emoji that need them
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs)
}

// First is a text's first characters; the last one marks that it goes on. It takes any text; a harmless line is better
// cut by its width on the terminal.
func First(s string, most int) string {
	if most < 1 {
		return ""
	}
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	end := 0
	for range most - 1 {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end] + "…"
}

// Width is the cells of a terminal that a line takes.
func Width(s string) int {
	if plain(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// Pad fills a line up with spaces on its right, to so many cells.
func Pad(s string, cells int) string { return s + strings.Repeat(" ", max(0, cells-Width(s))) }

// Cut shortens a line to so many cells, the last of which then says that it goes on.
func Cut(s string, most int) string {
	if most < 1 {
		return ""
	}
	if len(s) <= most || Width(s) <= most {
		return s
	}
	return ansi.Truncate(s, most, "…")
}

// Broken is a line as several of so many cells at most, broken wherever one is full.
func Broken(s string, most int) []string {
	if most < 1 || len(s) <= most || Width(s) <= most {
		return []string{s}
	}
	return strings.Split(ansi.Hardwrap(s, most, true), "\n")
}

// Fold is as many words of a line as have room in so many cells, and the rest. A word that is longer is broken.
func Fold(s string, most int) (line, rest string) {
	if Width(s) <= most {
		return s, ""
	}
	line = ansi.Truncate(s, max(most, 2), "") // a character may need two
	if s[len(line)] != ' ' {
		if at := strings.LastIndexByte(line, ' '); at > 0 {
			line = line[:at]
		}
	}
	return line, strings.TrimLeft(s[len(line):], " ")
}
