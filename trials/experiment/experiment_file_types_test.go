package experiment_test

import (
	"testing"

	"github.com/millrace/millrace/trials/experiment"
)

// TestExperimentsGiveTheirVerdicts runs the fast experiments: every claim gets the verdict that its file knows.
func TestExperimentsGiveTheirVerdicts(t *testing.T) {
	t.Parallel()
	for _, name := range experiment.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := experiment.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			if e.Name != name {
				t.Errorf("the experiment in %s.yaml is called %s", name, e.Name)
			}
			if testing.Short() && e.Name > "002" {
				t.Skip("seconds of arithmetic in one goroutine: the race detector has nothing to find there")
			}
			if e.Slow {
				t.Skip("minutes: make experiments runs it")
			}
			result, err := experiment.Run(t.Context(), e, experiment.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range result.Unexpected() {
				t.Errorf("%s: %s, want %s: %s", c.Name, c.Verdict, c.Expect, c.Shows)
			}
		})
	}
}
