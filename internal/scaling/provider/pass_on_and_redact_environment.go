package provider

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/kit/termtext"
)

// own are the prefixes of the worker's own variables: secrets, and those set by its init system.
var own = []string{"MILLRACE_", "TEMPORAL_", "AXIOM_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_FDS", "LISTEN_PID"}

// Environment is the worker's environment without what is its own. What has a test binary be another program stays.
func Environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(assignment string) bool {
		begins := func(prefix string) bool { return strings.HasPrefix(assignment, prefix) }
		return slices.ContainsFunc(own, begins) && !begins("MILLRACE_TEST_")
	})
}

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
