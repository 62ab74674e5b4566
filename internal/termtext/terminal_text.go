// Package termtext makes text that comes from models, engines, environments and trainers harmless on a terminal: no
// character of it moves the cursor, changes colours, sets a title, writes to the clipboard or turns the line around.
// What a terminal would obey is shown as a character that stands for it. Start reading at Line.
package termtext

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Obeyed reports whether a terminal acts on a character instead of showing it: control characters of both sets, what
// turns the direction of writing, and what is not seen at all.
func Obeyed(r rune) bool {
	switch {
	case unicode.IsControl(r):
		return true
	case r == '\u200d', r == '\u200c': // of scripts and emoji that need them
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Cs)
}

// Cut shortens a text to so many characters, the last of which then says that it goes on.
func Cut(s string, most int) string {
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

// Writer passes text on as Block shows it, for output that is nothing but text: no colours, no cursor.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	rest []byte // the beginning of a character, or a carriage return
}

func (w *writer) Write(p []byte) (int, error) {
	text := append(w.rest, p...)
	w.rest = nil
	if end := whole(text); end < len(text) {
		w.rest = bytes.Clone(text[end:])
		text = text[:end]
	}
	if _, err := io.WriteString(w.w, Block(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// whole is how much of a text can be shown without knowing what follows.
func whole(text []byte) int {
	end := len(text)
	if end > 0 && text[end-1] == '\r' {
		return end - 1
	}
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if b := text[end-back]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[end-back:]) {
				return end - back
			}
			break
		}
	}
	return end
}
