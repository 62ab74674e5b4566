package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

// TestProbe begins a probe, waits for its steps, and says what they show.
func TestProbe(t *testing.T) {
	t.Parallel()
	var steps []steprecord.StepRecord
	for k := range 14 {
		n := 42.0
		if k >= 12 {
			n = 21
		}
		steps = append(steps, steprecord.StepRecord{
			Step: rollout.Step(k), Done: true, Trainer: steprecord.StepReport{WallSec: 12.3},
			Service: steprecord.ServiceView{GrantedAt: noon.Add(time.Duration(k-10) * time.Minute),
				Fleet: steprecord.FleetView{WindowSec: 12, Engines: 1, InFlight: n, InputTPS: 13000, OutputTPS: 700}},
		})
	}
	records, err := json.Marshal(map[string]any{"steps": steps})
	if err != nil {
		t.Fatal(err)
	}
	begun, err := json.Marshal(map[string]any{"max_in_flight_per_engine": 21, "first_step": 12, "last_step": 13,
		"since": noon, "until": noon.Add(20 * time.Minute), "in_flight_per_engine": 42})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]reply{
		"POST /v1/runs/demo/probe":   {200, string(begun)},
		"DELETE /v1/runs/demo/probe": {200, runDocument},
		"GET /v1/runs/demo":          {200, strings.Replace(runDocument, `"next_step":3`, `"next_step":14`, 1)},
		"GET /v1/runs/demo/steps":    {200, string(records)},
	}
	r, s := command(t, answers, "", nil, "diagnose", "demo", "--probe", "--probe-in-flight", "21")
	for _, want := range []string{
		"before      4        1         42     13000        700    12.3", "probe       2        1         21     13000",
		"The engines are saturated: with 50 % fewer requests in flight an engine generates 0 % fewer tokens",
		"Next     millrace diagnose demo",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%s\n%v, without %q", r.stdout, r.err, want)
		}
	}
	if !strings.Contains(r.stderr, "at most 21 requests in flight per engine, where it has 42 now, until step 13") ||
		s.asked[0] != `POST /v1/runs/demo/probe {"max_in_flight_per_engine":21}` {
		t.Errorf("%s\n%s", r.stderr, s.asked[0])
	}
	if r, _ := command(t, answers, "", nil, "diagnose", "demo", "--probe", "-o", "json"); !strings.Contains(r.stdout, `"finding"`) {
		t.Errorf("%s\n%v", r.stdout, r.err)
	}
	if r, s := command(t, answers, "", nil, "diagnose", "demo", "--end-probe"); r.err != nil || len(s.asked) != 1 ||
		!strings.HasPrefix(s.asked[0], "DELETE /v1/runs/demo/probe") {
		t.Errorf("%v\n%s", r.err, s.asked)
	}
}

// TestProbeIsGivenUp: a run says a moment after its probe has begun that it is probed, and until then it is not over.
func TestProbeIsGivenUp(t *testing.T) {
	t.Parallel()
	probe := runstatus.LoadProbe{FirstStep: 12, LastStep: 13}
	for _, tt := range []struct {
		name   string
		run    runstatus.RunStatus
		untold int
		want   bool
	}{
		{"under way", runstatus.RunStatus{State: runstatus.RunRunning, NextStep: 11, LoadProbe: &probe}, 0, false},
		{"not told yet", runstatus.RunStatus{State: runstatus.RunRunning, NextStep: 11}, probeUntold, false},
		{"ended by somebody", runstatus.RunStatus{State: runstatus.RunRunning, NextStep: 11}, 0, true},
		{"the last step is under way", runstatus.RunStatus{State: runstatus.RunRunning, NextStep: 13}, 0, false},
		{"the run is over", runstatus.RunStatus{State: runstatus.RunStopped, NextStep: 11}, probeUntold, true},
	} {
		if got := probeIsGone(tt.run, probe, tt.untold); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
