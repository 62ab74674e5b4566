package diagnosis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"
	"github.com/millrace/millrace/internal/kit/units"
)

// A loss is worth somebody's time from the spec's share of a step on; below it is something to know.
func TestSeverity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		run    simRun
		bound  float64
		price  float64 // of an engine, an hour
		want   diagnosis.Severity
		behind bool
	}{
		{"nothing is lost", with(seedCase(), func(m *simRun) { m.engines = 16 }), 0, 2, diagnosis.SeverityOK, false},
		{"half of each step is waited for", seedCase(), 0, 0, diagnosis.SeveritySlow, false},
		{"the same, which the run's owner accepts", seedCase(), 0.9, 0, diagnosis.SeverityNote, false},
		{"the same, of a run that goes behind others", seedCase(), 0, 0, diagnosis.SeverityNote, true},
		{"no step", simRun{}, 0, 2, diagnosis.SeverityOK, false},
		{"half of each step, and engines have a price", seedCase(), 0, 2, diagnosis.SeveritySlow, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := tt.run.input()
			in.Spec.SlowShare, in.Spec.Dispatch.Behind = tt.bound, tt.behind
			if tt.price > 0 {
				in.Scaling = &diagnosis.ScalingNow{Price: tt.price}
			}
			r := diagnosis.Diagnose(in)
			if r.Severity != tt.want || r.Urgent() != (tt.want == diagnosis.SeveritySlow) {
				t.Errorf("%s, %q: %.2f of the time; want %s", r.Severity, r.Brief, r.Loss, tt.want)
			}
			if r.Verdict == diagnosis.VerdictProblem && (r.Loss < 0.1 || r.Loss > 0.9 || r.Brief == "") {
				t.Errorf("%q, %.2f of the time", r.Brief, r.Loss)
			}
			if priced := fmt.Sprintf(", $%s/h", units.Number(r.Loss*tt.price*4)); r.Urgent() &&
				strings.HasSuffix(r.Brief, priced) != (tt.price > 0) {
				t.Errorf("%q, with %s: want a price only where one is known", r.Brief, priced)
			}
		})
	}
}
