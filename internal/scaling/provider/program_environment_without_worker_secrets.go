package provider

import (
	"slices"
	"strings"
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
