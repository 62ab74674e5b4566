package activities

import (
	"strings"
	"testing"
)

// A dependency that nobody wired is reported by name, whichever it is.
func TestEveryDependencyIsRequired(t *testing.T) {
	t.Parallel()
	err := Validate(&Activities{Emit: muted{}})
	if err == nil {
		t.Fatal("nothing is missed")
	}
	for _, want := range []string{"Buffer", "Fleet", "Groups", "Policy", "Environments", "Now", "Log"} {
		if !strings.Contains(err.Error(), want+" is not set") {
			t.Errorf("%q says nothing of %s", err, want)
		}
	}
	if strings.Contains(err.Error(), "Emit") || strings.Contains(err.Error(), "Hanging") {
		t.Errorf("%q misses what is there", err)
	}
}
