package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/supply"
)

func scaledFleet(t *testing.T) string {
	t.Helper()
	now := time.Now()
	view := supply.View{
		At: now, Provider: "process", Wanted: 3, Why: "demo is capacity-bound", Next: now.Add(time.Hour), Cost: 12.5,
		Started:  4,
		Settings: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 8}, Set: []string{"max"},
		Actual: scaling.Engines{Ready: 2, Starting: 1}, Trouble: "quota of 2 GPUs", TroubleSince: now.Add(-time.Minute),
		Engines: []supply.Engine{{ID: "scaled-4", State: enginestate.EngineStarting, Since: now, StartedAt: now,
			Instance: provider.Instance{State: enginestate.EngineOrdered, Reason: "no node has a GPU"}}},
		Sample: scaling.Sample{Runs: []scaling.Run{{Name: "demo", C: 50, P: 84, RD: 20, Engines: 1, Steps: 7, Waits: true}}},
		Decisions: []scaling.Decision{{No: 1, At: now, From: 1, To: 3, Code: scaling.Buys, Reason: "demo waits", Cost: 2,
			Predicted: []scaling.Effect{{Run: "demo", BeforeSec: 84, PredictedSec: 51}}}},
		Measured: map[int]scaling.Measured{1: {Decision: 1,
			Text:    "steps became 37 % shorter",
			Effects: []scaling.Effect{{Run: "demo", BeforeSec: 84, PredictedSec: 51, MeasuredSec: 53}}}},
	}
	view.Sample.ColdStartSec = 62
	text, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What is wanted, why, what was decided and what it did are there, and who is to do something about it is told what.
func TestShowScaling(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{"GET /v1/fleet": {200, scaledFleet(t)}}
	r, _ := command(t, answers, "", nil, "engine", "scaling")
	if r.err != nil {
		t.Fatal(r.err)
	}
	for _, want := range []string{"3 engines (1 to 8): demo is capacity-bound", "2 ready, 1 starting, 0 draining",
		"change possible in", "set while it ran: max",
		"cost     $12.50 so far; engines asked for: 4", "trouble  for ", "quota of 2 GPUs", "no node has a GPU",
		"cold     62 s from", "84", "53", "waits", "buys", "measured: steps became 37 % shorter"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing:\n%s", want, r.stdout)
		}
	}
	r, _ = command(t, answers, "", nil, "engine", "scaling", "-o", "json")
	var view supply.View
	if err := json.Unmarshal([]byte(r.stdout), &view); err != nil || view.Wanted != 3 {
		t.Errorf("as JSON: %v, %+v", err, view)
	}
}

// What a fleet costs is told as far as it is known, and how it becomes known.
func TestCostLine(t *testing.T) {
	t.Parallel()
	two := scaling.Engines{Ready: 1, Draining: 1}
	for _, tt := range []struct {
		view supply.View
		want string
	}{
		{supply.View{Actual: two}, "cost     not known: set price, in $ per engine and hour; engines asked for: 0"},
		{supply.View{Actual: two, Cost: 3, Started: 2}, "cost     $3.00 so far; engines asked for: 2"},
		{supply.View{Actual: two, Settings: scaling.Config{Price: 2.5}},
			"cost     $0.00 so far, $5.00 an hour now; engines asked for: 0"},
		{supply.View{Actual: two, Cost: 3, Started: 1200, Settings: scaling.Config{Price: 2.5, Budget: 20}},
			"cost     $3.00 so far, $5.00 an hour now of a budget of $20.00; engines asked for: 1200"},
	} {
		if got := costLine(&tt.view); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
}

// A sample is stale when it is older than samples become; those of a long window become old.
func TestStaleSample(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		age    time.Duration
		window float64
		want   bool
	}{
		{"new", 50 * time.Second, 10, false},
		{"old", 70 * time.Second, 10, true},
		{"old, and no older than usual", 5 * time.Minute, 120, false},
		{"old for a long window, too", 7 * time.Minute, 120, true},
	} {
		v := supply.View{At: now.Add(-tt.age), Sample: scaling.Sample{Sec: tt.window}}
		if got := strings.Contains(strings.Join(fleetLines(&v, now), "\n"), "stale "); got != tt.want {
			t.Errorf("%s: told as stale: %v", tt.name, got)
		}
	}
}

// What nobody has said is told as what holds, and where it is from.
func TestSettingsTellWhatHolds(t *testing.T) {
	t.Parallel()
	v := supply.View{Set: []string{"max"}, Settings: scaling.Config{Policy: scaling.Starvation, Min: 1, Max: 8,
		ColdStart: rollout.Duration(40 * time.Second)}}
	var b strings.Builder
	if err := settingsTable(&v).Write(&b, 200); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"min 1 configuration", "max 8 set", "cold_start 40s configuration",
		"starvation.head_room 0.05 default"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// A change is sent as a merge patch; what cannot be sent is a mistake of the command line, and a refusal says what to
// do.
func TestSetScaling(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{"PATCH /v1/fleet": {200, scaledFleet(t)}}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"min=2", "max=8"}, `{"max":8,"min":2}`},
		{[]string{"policy=queue", "queue.target_inputs=32"}, `{"policy":"queue","queue":{"target_inputs":32}}`},
		{[]string{"max="}, `{"max":null}`},
		{[]string{"--reset"}, `{"reset":true}`},
	} {
		r, s := command(t, answers, "", nil, append([]string{"engine", "scaling"}, tt.args...)...)
		if r.err != nil || !strings.HasSuffix(s.asked[len(s.asked)-1], tt.want) {
			t.Errorf("%v: %v, asked %q", tt.args, r.err, s.asked)
		}
		if !strings.Contains(r.stdout, "queue.target_inputs") {
			t.Errorf("%v: the settings are not shown:\n%s", tt.args, r.stdout)
		}
	}
	for _, args := range [][]string{{"min"}, {"min=1", "min=2"}} {
		r, s := command(t, answers, "", nil, append([]string{"engine", "scaling"}, args...)...)
		if r.code != 2 || len(s.asked) > 0 {
			t.Errorf("%v: exit code %d, asked %q", args, r.code, s.asked)
		}
	}
	off := map[string]reply{"GET /v1/fleet": {404, `{"title":"The fleet is not scaled","status":404,` +
		`"detail":"scaling is off; give the workers' configuration a section scaling (docs/scaling.md)"}`}}
	r, _ := command(t, off, "", nil, "engine", "scaling")
	if r.code != 0 || !strings.Contains(r.stderr, "scaling is off") {
		t.Errorf("not scaled: %d, %v", r.code, r.err)
	}
}
