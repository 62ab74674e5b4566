// Package statefolder is where programs keep what outlives them.
package statefolder

import (
	"os"
	"path/filepath"
)

// Of is that folder for whoever has an environment: $XDG_STATE_HOME, ~/.local/state, or else that for temporary files.
func Of(getenv func(string) string) string {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state")
	}
	return os.TempDir()
}
