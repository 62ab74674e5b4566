package diagnosis_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis"

	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// A run is paused in step 12, whose publication and next batch wait until it is resumed and its engines are back: 600 s
// and 90 s. That is no fault of theirs, and none of the steps' usual time.
func TestAPauseIsNoFault(t *testing.T) {
	t.Parallel()
	paused := func(phases map[int]map[steprecord.Phase]float64) diagnosis.Input {
		return trainerRun(20, func(step int, of map[steprecord.Phase]float64) {
			for phase, more := range phases[step] {
				of[phase] += more
			}
		})
	}
	waits := map[int]map[steprecord.Phase]float64{12: {steprecord.PhasePublish: 600}, 13: {steprecord.PhaseWait: 90}}
	began := startOfRun.Add(sec(12*150 + 100))
	in := paused(waits)
	in.Events = []diagnosis.Event{
		{At: startOfRun, Kind: diagnosis.EventConfig, Text: "start"},
		{At: began, Kind: diagnosis.EventConfig, Text: "set buffer.depth=2; pause"},
		{At: began.Add(sec(600)), Kind: diagnosis.EventConfig, Text: "resume"},
		{At: began.Add(sec(740)), Kind: diagnosis.EventEngineJoined, Text: "engine scaled-3 is ready"},
	}
	in.ScalingActs = []diagnosis.ScalingAct{
		{At: began.Add(sec(60)), From: 1, To: 0, Reason: "run is paused, for 60 s now"},
		{At: began.Add(sec(610)), From: 0, To: 1, Reason: "run wakes the fleet"},
	}
	r := diagnosis.Diagnose(in)
	checkLedger(t, in, r)
	if r.Verdict != diagnosis.VerdictHealed || r.Findings[0].Cause != diagnosis.CausePaused ||
		!strings.Contains(r.Summary, "Publishing weights took longer in step 12 because the run was paused") {
		t.Errorf("%s: %s", r.Verdict, r.Summary)
	}
	for _, loss := range r.Ledger.Losses {
		if loss.Cause != diagnosis.CausePaused {
			t.Errorf("%v s were lost by %s", loss.Sec, loss.Cause)
		}
	}
	if len(r.Levels) != 1 || r.Levels[0].StepSec != 150 || !slices.Contains(r.Notes,
		"2 of 20 steps fell into a pause of the run, and are left out of the levels") {
		t.Errorf("levels %+v, notes %q", r.Levels, r.Notes)
	}
	if t.Failed() {
		t.Log(text(t, r))
	}

	in = paused(waits)
	last := startOfRun.Add(sec(20*150 + 680))
	in.Spec.Name, in.Events = "demo", []diagnosis.Event{{At: last, Kind: diagnosis.EventConfig, Text: "pause"}}
	want := "the run is paused since step 19, and nothing is launched: millrace run resume demo"
	if r := diagnosis.Diagnose(in); !slices.Contains(r.Notes, want) {
		t.Errorf("notes of a run that is paused now: %q", r.Notes)
	}
}
