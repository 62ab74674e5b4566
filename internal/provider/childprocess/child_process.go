// Package childprocess is what providers have in common that run programs of others: what these get of the worker's
// environment, and what of their words goes into a reason.
package childprocess

import (
	"bytes"
	"slices"
	"strings"

	"github.com/millrace/millrace/internal/termtext"
)

// own begin the names of variables that are the worker's own: secrets, and what its init system told it.
var own = []string{"MILLRACE_", "TEMPORAL_", "AXIOM_", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_FDS", "LISTEN_PID"}

// Environment is the worker's environment without what is its own. What has a test binary be another program stays.
func Environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(assignment string) bool {
		begins := func(prefix string) bool { return strings.HasPrefix(assignment, prefix) }
		return slices.ContainsFunc(own, begins) && !begins("MILLRACE_TEST_")
	})
}

// LastWords is the end of what a program said, for a reason: harmless lines, a few.
func LastWords(said []byte) string {
	const lines, size = 6, 1 << 10
	said = bytes.TrimSpace(said)
	said = said[max(0, len(said)-size):]
	all := strings.Split(termtext.Block(strings.ToValidUTF8(string(said), "�")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
