package connections

import (
	"fmt"
	"os"
	"testing"
)

// TestMain keeps what waits on the disk away from the user's own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "millrace-test-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}
