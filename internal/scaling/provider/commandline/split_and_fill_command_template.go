// Package commandline is command lines in a configuration: words as a shell splits them, with placeholders in braces
// that are filled in afterwards, so that no value becomes two words or anything else that a shell would act on.
package commandline

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// inBraces matches anything that looks like a placeholder; JSON among the words does not.
var inBraces = regexp.MustCompile(`\{[a-z_]+\}`)

// Unknown is the first unknown placeholder of a text; empty: there is none.
func Unknown(text string, known []string) string {
	for _, found := range inBraces.FindAllString(text, -1) {
		if !slices.Contains(known, found) {
			return found
		}
	}
	return ""
}

// HasPlaceholder reports whether something is to be filled in.
func HasPlaceholder(text string) bool { return inBraces.MatchString(text) }

// Fill puts values in the place of placeholders, in one pass: a value is not looked at again.
func Fill(text string, values map[string]string) string {
	return inBraces.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[found]; ok {
			return value
		}
		return found
	})
}

// Split splits a command line as a POSIX shell does, with both kinds of quotes, and a backslash before any character.
func Split(command string) ([]string, error) {
	var words []string
	var word strings.Builder
	began := false
	for rest := command; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		switch c {
		case ' ', '\t', '\n', '\r':
			if began {
				words = append(words, word.String())
				word.Reset()
			}
			began = false
		case '\'':
			text, after, ok := strings.Cut(rest, "'")
			if !ok {
				return nil, errors.New("a quotation mark ' is not closed")
			}
			word.WriteString(text)
			rest, began = after, true
		case '"':
			after, ok := quoted(rest, &word)
			if !ok {
				return nil, errors.New(`a quotation mark " is not closed`)
			}
			rest, began = after, true
		case '\\':
			if rest == "" {
				return nil, errors.New(`a \ is at the end, with nothing behind it`)
			}
			if rest[0] != '\n' { // which continues a line
				word.WriteByte(rest[0])
				began = true
			}
			rest = rest[1:]
		default:
			word.WriteByte(c)
			began = true
		}
	}
	if began {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted writes the text up to the closing double quote, and returns the text after it.
func quoted(rest string, word *strings.Builder) (after string, ok bool) {
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == '"':
			return rest[i+1:], true
		case rest[i] == '\\' && i+1 < len(rest) && strings.IndexByte("\"\\$`\n", rest[i+1]) >= 0:
			i++
			if rest[i] != '\n' {
				word.WriteByte(rest[i])
			}
		default:
			word.WriteByte(rest[i])
		}
	}
	return "", false
}
