package faultsuite

import (
	"strings"
	"testing"
)

// TestRecordedRuns: every run that was recorded on the whole service is diagnosed rightly.
func TestRecordedRuns(t *testing.T) {
	t.Parallel()
	cases, err := LiveCases("../livefaults/testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 12 {
		t.Errorf("%d recorded runs, want 12 at least", len(cases))
	}
	outcomes := Try(cases, Trials{Scales: []int{1}, Seeds: []uint64{1}, Workers: 2})
	for i := range outcomes {
		if o := &outcomes[i]; !o.Right() {
			t.Errorf("%s: said %s, want %s: %s (%v)", o.Case.Name, saidOf(o), wanted(o.Case), o.Text, o.Err)
		}
	}
}

// TestKnownFaults is the suite in little: each case of the second simulator once. make diagnosis-suite tries all.
func TestKnownFaults(t *testing.T) {
	t.Parallel()
	outcomes := Try(RequestCases(), Trials{Scales: []int{1}, Seeds: []uint64{1}, Workers: 2})
	s := ScoreOf(outcomes)
	var table strings.Builder
	if err := WriteFaults(&table, outcomes); err != nil {
		t.Fatal(err)
	}
	if s.Faults < 70 || float64(s.Right) < 0.94*float64(s.Faults) || s.FalseAlarms > 0 {
		t.Errorf("%d of %d right, %d false alarms in %d healthy runs\n%s", s.Right, s.Faults, s.FalseAlarms, s.Healthy,
			table.String())
	}
}
