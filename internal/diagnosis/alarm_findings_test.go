package diagnosis_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// TestAlarmsComeFirst: whatever the steps say, and before there are any, games that are not played are the problem.
func TestAlarmsComeFirst(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]simRun{"no step": {},
		"healthy": with(seedCase(), func(m *simRun) { m.engines = 16 }), "starved": seedCase()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := m.input()
			in.Alarms = []runstatus.Alarm{
				{Code: runstatus.AlarmNoEngine, Text: "the fleet has no engine", Advice: "add one: millrace engine add URL"},
				{Code: runstatus.AlarmGamesFail, Text: "every game fails: panic 9 times in 8 s, last: out of range.",
					Advice: "see: millrace events demo"},
			}
			r := diagnosis.Diagnose(in)
			if r.Severity != diagnosis.SeverityStuck || r.Brief != "no engine" || len(r.Findings) < 2 ||
				r.Findings[0].Cause != diagnosis.CauseNoEngine ||
				r.Findings[1].Cause != diagnosis.CauseGamesFail {
				t.Fatalf("%s: %+v", r.Verdict, r.Findings)
			}
			got := text(t, r)
			const first = "\nThe fleet has no engine.\nEvery game fails: panic 9 times in 8 s, last: out of range.\n"
			for _, says := range []string{first, "millrace engine add URL"} {
				if !strings.Contains(got, says) {
					t.Errorf("%q is missing in:\n%s", says, got)
				}
			}
		})
	}
}

// TestWhatIsOverIsNotChanged: a run that is over is told what the next one should have, and a healthy one where its
// time goes.
func TestWhatIsOverIsNotChanged(t *testing.T) {
	t.Parallel()
	in := latencyCase().input()
	in.Over = true
	if next := strings.Join(diagnosis.Diagnose(in).Next, "\n"); strings.Contains(next, "run set") ||
		!strings.Contains(next, "in the spec of the next run: buffer.depth=") {
		t.Errorf("next: %s", next)
	}
}
