// Package temporalcli finds the Temporal CLI, and says how it is told to run the Temporal dev server. Start reading at
// Find.
package temporalcli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Find looks where $MILLRACE_TEMPORAL says, on the PATH, then where the Makefile of the repository at root builds it.
func Find(getenv func(string) string, root string) (string, error) {
	onPath, _ := exec.LookPath("temporal")
	for _, path := range []string{getenv("MILLRACE_TEMPORAL"), onPath, filepath.Join(root, ".bin", "temporal")} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("no temporal CLI found: it runs the Temporal dev server. Build the pinned one with " +
		"`make temporal`, install it from https://docs.temporal.io/cli, or name a running server with --temporal host:port")
}

// DevServer is the arguments that run the dev server on a port of loopback. Tasks have priorities, which server 1.29
// has switched off. A queue has one partition: each has an order of its own, and passes on one poll at a time to the
// first, so that workers would wait at empty ones beside tasks that wait. A worker that completes a workflow's task may
// take the short activities that follow with it, without a queue.
func DevServer(port string, more ...string) []string {
	return append([]string{"server", "start-dev", "--ip", "127.0.0.1", "--port", port, "--log-level", "error",
		"--dynamic-config-value", "matching.useNewMatcher=true",
		"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
		"--dynamic-config-value", "matching.numTaskqueueWritePartitions=1",
		"--dynamic-config-value", "system.enableActivityEagerExecution=true"}, more...)
}
