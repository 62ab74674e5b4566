package chart

import (
	"strings"
	"unicode"
)

// The sizes of text, in pixels.
const (
	titleSize = 18 // 16, and bold is wider
	textSize  = 12
	tickSize  = 11
)

// textWidth is about how wide a text is in a sans-serif font, on the wide side: no font is known, and labels must not
// run into each other.
func textWidth(text string, size float64) float64 {
	width := 0.0
	for _, r := range text {
		width += letterWidth(r)
	}
	return width * size
}

func letterWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("ijl.,:;|'!()[]I ", r):
		return 0.36
	case strings.ContainsRune("frt-\"/\\", r):
		return 0.42
	case strings.ContainsRune("mwMW@%", r):
		return 0.96
	case r >= 0x1100 && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Punct):
		return 1.05 // as wide as high: Chinese, Japanese, Korean, pictures
	case unicode.IsUpper(r):
		return 0.72
	case unicode.Is(unicode.Mn, r):
		return 0
	}
	return 0.62
}

// fitting is a text shortened to a width.
func fitting(text string, size, width float64) string {
	if textWidth(text, size) <= width {
		return text
	}
	rest := width - textWidth("…", size)
	for i, r := range text {
		if rest -= letterWidth(r) * size; rest < 0 {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}

// lines breaks a text between words into at most so many lines of a width; the last is shortened.
func lines(text string, size, width float64, most int) []string {
	var out []string
	line := ""
	words := strings.Fields(text)
	for i, word := range words {
		longer := strings.TrimPrefix(line+" "+word, " ")
		switch {
		case textWidth(longer, size) <= width || line == "":
			line = longer
		case len(out) == most-1:
			return append(out, fitting(line+" "+strings.Join(words[i:], " "), size, width))
		default:
			out, line = append(out, fitting(line, size, width)), word
		}
	}
	if line == "" {
		return out
	}
	return append(out, fitting(line, size, width))
}

// clean is a text without what an SVG file may not hold, or what changes the direction of the text around it.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1
		case unicode.IsControl(r) || r == 0xfffe || r == 0xffff:
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, string(unicode.ReplacementChar)))
}
