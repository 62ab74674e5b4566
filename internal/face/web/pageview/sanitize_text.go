package pageview

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostText is how much of one text a page shows; the API has all of it.
const mostText = 64 << 10

// Harmless is a text of anybody, a model's above all, as a page shows it: what controls a terminal or turns the
// direction of the text around it is named instead of done, and of a very long one the beginning is shown. Markup is
// the templates' to escape.
func Harmless(text string) (shown, more string) {
	if len(text) > mostText {
		cut := mostText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		more = fmt.Sprintf("%s more bytes are not shown here; as JSON they are", Count(int64(len(text)-cut)))
		text = text[:cut]
	}
	return Named(text), more
}

// mostReason is how much of a reason or an error a page shows, of which it may have many.
const mostReason = 2000

// Brief is a reason or an error, harmless, and of a very long one its beginning.
func Brief(text string) string {
	if len(text) <= mostReason {
		return Named(text)
	}
	cut := mostReason
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s... (%s more bytes; as JSON they are)", Named(text[:cut]), Count(int64(len(text)-cut)))
}

// Named is a text in which what controls a terminal, or turns the direction of the text around it, is named. Pages go
// through it as a whole: a text that nobody thought of does no harm either.
func Named(text string) string {
	if !strings.ContainsFunc(text, unshown) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case !unshown(r):
			b.WriteRune(r)
		case r == '\r':
		case r < 0x20:
			b.WriteRune(0x2400 + r) // its picture
		case r == 0x7f:
			b.WriteRune(0x2421)
		default:
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}

// unshown reports whether a letter does something instead of being seen.
func unshown(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 ||
		r == 0x2029 || r >= 0xe0000 && r <= 0xe007f
}

func harmless(text string) string {
	shown, _ := Harmless(text)
	return shown
}
