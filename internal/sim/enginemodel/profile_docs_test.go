package enginemodel_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/sim/enginemodel"
)

var update = flag.Bool("update", false, "write the profiles' tables in docs instead of comparing them")

// TestProfilesAreDocumented: the page shows every figure of every profile, with its source, as the files have it.
func TestProfilesAreDocumented(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/hardware-profiles.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "-run Documented -update -->\n")
	_, after, alsoFound := strings.Cut(rest, "<!-- profiles: end -->")
	if !found || !alsoFound {
		t.Fatalf("%s has no place for the profiles", page)
	}
	var b strings.Builder
	for _, name := range enginemodel.Profiles() {
		p := load(t, name)
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n| figure | value | kind | source |\n|---|---|---|---|\n", p.Name, p.About)
		for _, f := range p.Figures() {
			fmt.Fprintf(&b, "| `%s.%s` | %g | %s | %s |\n", f.Section, f.Key, f.Value, f.Kind, f.Source)
		}
	}
	want := before + "-run Documented -update -->\n" + b.String() + "\n<!-- profiles: end -->" + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the profiles; -update writes it again", page)
	}
}
