package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/diagnosis/reporttext"
)

// A share of a jump is never written as more than all of it: where something else became faster meanwhile, one cause
// alone would have cost more than the jump did.
func TestNoShareIsMoreThanAll(t *testing.T) {
	t.Parallel()
	r := diagnosis.Diagnose(with(seedCase(), func(m *simRun) { m.engines, m.slowdown = 16, from(6, 1.5) }).input())
	for i := range r.Causes {
		r.Causes[i].Share = &diagnosis.Share{Of: 2.76, Low: 1.9, High: 3.1, What: diagnosis.OfJump}
	}
	for i := range r.Rise.Phases {
		r.Rise.Phases[i].Share = 2.76
	}
	var verbose strings.Builder
	if err := reporttext.WriteVerbose(&verbose, r); err != nil {
		t.Fatal(err)
	}
	said := verbose.String()
	if len(r.Causes) == 0 || !strings.Contains(said, "100 % of jump") {
		t.Errorf("no share:\n%s", said)
	}
	for _, over := range []string{"276 %", "310 %", "190 "} {
		if strings.Contains(said, over) {
			t.Errorf("says %q:\n%s", over, said)
		}
	}
}
