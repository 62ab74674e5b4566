// Package spooltest keeps what waits on the disk in a folder of the tests' own, away from the user's. Start reading at
// Main.
package spooltest

import (
	"fmt"
	"os"
	"testing"
)

// Main runs a package's tests.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millrace-test-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) // a temporary folder
	return m.Run()
}
