package enginemodel_test

import (
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/sim/enginemodel"
)

// TestProfilesAreDocumented: the page names every profile that comes along, and every kind that a figure may have.
func TestProfilesAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/hardware-profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range enginemodel.Profiles() {
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("the profile %s is not on the page", name)
		}
		for _, f := range load(t, name).Figures() {
			if !strings.Contains(string(text), "| "+string(f.Kind)+" |") {
				t.Errorf("the kind %s of %s.%s is not on the page", f.Kind, f.Section, f.Key)
			}
		}
	}
}
