package apl

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token is.
type tokenKind uint8

const (
	endToken tokenKind = iota
	nameToken
	stringToken
	numberToken   // also of a span of time, such as 5m
	operatorToken // signs, such as == and |
)

// token is one word of a query.
type token struct {
	kind tokenKind
	text string // of a string, its value
	unit string // of a number that is a span of time: ms, s, m, h, d
	at   int    // in the query
}

// signs, the longest first.
var signs = []string{"==", "!=", "<=", ">=", "=~", "!~", "..", "|", "(", ")", "[", "]", ",", ";", ".", "<", ">", "=",
	"+", "-", "*", "/", "%", "!", "{", "}", ":"}

// tokens splits a query. Comments, from // to the end of a line, are left out.
func tokens(text string) ([]token, error) {
	var out []token
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case unicode.IsSpace(r):
			at += size
		case strings.HasPrefix(text[at:], "//"):
			end := strings.IndexByte(text[at:], '\n')
			if end < 0 {
				end = len(text) - at
			}
			at += end
		case r == '"' || r == '\'' || r == '@' && at+1 < len(text) && (text[at+1] == '"' || text[at+1] == '\''):
			t, end, err := stringAt(text, at)
			if err != nil {
				return nil, err
			}
			out, at = append(out, t), end
		case r >= '0' && r <= '9':
			t, end := numberAt(text, at)
			out, at = append(out, t), end
		case r == '_' || unicode.IsLetter(r):
			end := at + strings.IndexFunc(text[at:]+" ", func(r rune) bool { return !inName(r) })
			word := text[at:end]
			// The languages' own words with a dash, and with a tilde at their end.
			for _, dashed := range []string{"project-away", "project-keep", "project-rename", "project-reorder"} {
				if strings.HasPrefix(text[at:], dashed) {
					word = dashed
				}
			}
			end = at + len(word)
			if (word == "in" || word == "has") && strings.HasPrefix(text[end:], "~") {
				word, end = word+"~", end+1
			}
			out, at = append(out, token{kind: nameToken, text: word, at: at}), end
		default:
			sign := ""
			for _, s := range signs {
				if strings.HasPrefix(text[at:], s) {
					sign = s
					break
				}
			}
			if sign == "" {
				return nil, fault(text, at, "%q is no sign of this language", r)
			}
			out, at = append(out, token{kind: operatorToken, text: sign, at: at}), at+len(sign)
		}
	}
	return append(out, token{kind: endToken, at: len(text)}), nil
}

func inName(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// stringAt reads a text in quotes; one that begins with @ has no escapes.
func stringAt(text string, at int) (t token, end int, err error) {
	plain := text[at] == '@'
	begin := at
	if plain {
		at++
	}
	quote := text[at]
	var b strings.Builder
	for i := at + 1; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote && plain && i+1 < len(text) && text[i+1] == quote:
			b.WriteByte(quote)
			i++
		case c == quote:
			return token{kind: stringToken, text: b.String(), at: begin}, i + 1, nil
		case c == '\n':
			return token{}, 0, fault(text, begin, "this text has no closing %c", quote)
		case c == '\\' && !plain && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return token{}, 0, fault(text, begin, "this text has no closing %c", quote)
}

// numberAt reads a number and the unit of time that may follow it at once.
func numberAt(text string, at int) (t token, end int) {
	end = at
	digits := func() {
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
	}
	digits()
	if end+1 < len(text) && text[end] == '.' && text[end+1] >= '0' && text[end+1] <= '9' {
		end++
		digits()
	}
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		back := end
		end++
		if end < len(text) && (text[end] == '+' || text[end] == '-') {
			end++
		}
		first := end
		if digits(); end == first {
			end = back
		}
	}
	t = token{kind: numberToken, text: text[at:end], at: at}
	unit := end
	for unit < len(text) && inName(rune(text[unit])) {
		unit++
	}
	t.unit = text[end:unit]
	return t, unit
}
