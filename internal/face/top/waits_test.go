package top

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/face/api"

	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestRunShowsItsWaitsAndFailures: what is awaited is said once, by the line that says most of it.
func TestRunShowsItsWaitsAndFailures(t *testing.T) {
	t.Parallel()
	r := runOf("alpha", runstatus.RunRunning)
	r.Alarms = []runstatus.Alarm{{Text: "no worker is alive", Advice: "start one"}}
	r.Waits = []api.Wait{
		{What: "batch", Owner: "trainer, step 3", Since: after(1), Detail: "2 of 4 groups are ready"},
		{What: "worker", Owner: "run", Since: after(1), Detail: "no worker is alive; start one"},
		{What: "adapter", Owner: "policy version 3", Since: after(2), Detail: "every ready engine to load alpha-v3"},
		{What: "room", Owner: "run", Detail: "max_bytes: the buffer is full"},
		{What: "record", Owner: "4 claimed groups", Detail: "the trainer's record of step 3"},
		{What: "games", Owner: "2 groups in flight", Detail: "the end of their games"},
	}
	r.Departures = []steprecord.LengthCount{{Code: steprecord.Trained, Groups: 12}, {Code: "stale", Groups: 3},
		{Code: "failed", Groups: 1}}
	read := theRun()
	read.Run = r
	m := played(after1(overviewOf(r), Key("enter"), read, Ticked{after(6)}), 120, 30)
	var got []string
	for _, line := range m.View() {
		for _, head := range []string{"trainer", "waits", "STUCK", "dropped"} {
			if strings.HasPrefix(line.Text, head) {
				got = append(got, line.Text)
			}
		}
	}
	want := []string{
		"trainer  waits 5s for a batch: 2 of 4 groups are ready",
		"waits    policy version 3 4s: every ready engine to load alpha-v3",
		"waits    run: max_bytes: the buffer is full",
		"trainer  has 4 claimed groups; awaited is the trainer's record of step 3",
		"dropped  groups that were not trained on: 3 stale, 1 failed",
		"STUCK    no worker is alive",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
