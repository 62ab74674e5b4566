package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstall: what lies in the folder then runs, and a second time takes the place of the first.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if code, _, said := commanded("engine", "install", dir); code != 0 {
			t.Fatalf("exit code %d, %s", code, said)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "millrace"), "--version")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_AS_BINARY=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "millrace ") {
		t.Errorf("%v, %s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	code, _, said := commanded("engine", "install", filepath.Join(dir, "absent"))
	if code != 1 || !strings.Contains(said, "absent") {
		t.Errorf("a folder that is not there: exit code %d, %s", code, said)
	}
}
