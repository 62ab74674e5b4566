package provider

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/millrace/millrace/internal/kit/termtext"
)

// secretName matches the names of variables with secret values.
var secretName = regexp.MustCompile(`(?i)(TOKEN|SECRET|KEY|PASSW|CREDENTIAL)`)

// leastSecret is the length below which a value is too common a text to be hidden wherever it occurs.
const leastSecret = 6

// Redact replaces the secrets of its environment in a program's output by the names of their variables.
func Redact(said string, env []string) string {
	for _, assignment := range env {
		name, value, _ := strings.Cut(assignment, "=")
		if len(value) >= leastSecret && secretName.MatchString(name) {
			said = strings.ReplaceAll(said, value, "["+name+"]")
		}
	}
	return said
}

// LastWords is the end of what a program said, for a reason: harmless lines, a few.
func LastWords(said []byte) string {
	const lines, size = 6, 1 << 10
	said = bytes.TrimSpace(said)
	said = said[max(0, len(said)-size):]
	all := strings.Split(termtext.Block(strings.ToValidUTF8(string(said), "�")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
