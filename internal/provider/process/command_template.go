package process

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// placeholders are what is filled in.
var placeholders = []string{"{port}", "{host}", "{id}", "{gpus}", "{millrace}"}

// inBraces is what looks like a placeholder. JSON among the words does not.
var inBraces = regexp.MustCompile(`\{[a-z_]+\}`)

func unknownPlaceholder(text string) string {
	for _, found := range inBraces.FindAllString(text, -1) {
		if !slices.Contains(placeholders, found) {
			return found
		}
	}
	return ""
}

// fillIn puts values in the place of placeholders, in one pass: a value is not looked at again.
func fillIn(text string, values map[string]string) string {
	return inBraces.ReplaceAllStringFunc(text, func(found string) string {
		if value, ok := values[found]; ok {
			return value
		}
		return found
	})
}

// splitWords splits a command as a POSIX shell does, with both kinds of quotes, and a backslash before any character.
func splitWords(command string) ([]string, error) {
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

// quoted writes what is between double quotes, and is what follows them.
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
