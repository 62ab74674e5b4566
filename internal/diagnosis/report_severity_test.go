package diagnosis_test

import (
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
)

// A loss is worth somebody's time from the spec's share of a step on; below it is something to know.
func TestSeverity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		run   simRun
		bound float64
		want  diagnosis.Severity
	}{
		{"nothing is lost", with(seedCase(), func(m *simRun) { m.engines = 16 }), 0, diagnosis.SeverityOK},
		{"half of each step is waited for", seedCase(), 0, diagnosis.SeveritySlow},
		{"the same, which the run's owner accepts", seedCase(), 0.9, diagnosis.SeverityNote},
		{"no step", simRun{}, 0, diagnosis.SeverityOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.run.input()
			in.Spec.SlowShare = tt.bound
			r := diagnosis.Diagnose(in)
			if r.Severity != tt.want || r.Urgent() != (tt.want == diagnosis.SeveritySlow) {
				t.Errorf("%s, %q: %.2f of the time; want %s", r.Severity, r.Brief, r.Loss, tt.want)
			}
			if r.Verdict == diagnosis.VerdictProblem && (r.Loss < 0.1 || r.Loss > 0.9 || r.Brief == "") {
				t.Errorf("%q, %.2f of the time", r.Brief, r.Loss)
			}
		})
	}
}
