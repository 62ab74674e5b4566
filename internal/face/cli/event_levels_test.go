package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// recordedEvents is a page of a run's events: a step, a game that is tried again, one that is given up, and one of a
// later version of the program.
func recordedEvents(t *testing.T) string {
	t.Helper()
	ref := rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "demo", Seq: 4}, Sample: 1}
	page := api.EventList{Next: "4-0"}
	for i, body := range []telemetry.Body{
		telemetry.StepCompleted{Record: steprecord.StepRecord{Step: 3, Done: true}},
		telemetry.EpisodeFailed{Ref: ref, Code: "timeout", Failure: "engine a\x1b[2J", Attempt: 1},
		telemetry.EpisodeFailed{Ref: ref, Code: "timeout", Failure: "engine a", Attempt: 2, Final: true},
	} {
		e := telemetry.Event{At: time.Unix(int64(i), 0), Run: "demo", Key: "k", Body: body}
		data, err := telemetry.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		page.Events = append(page.Events, api.Event{ID: string(rune('1'+i)) + "-0", Kind: e.Kind(), Data: data})
	}
	page.Events = append(page.Events, api.Event{ID: "4-0", Kind: "later", Data: json.RawMessage(`{"kind":"later","x":1}`)})
	b, err := json.Marshal(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestLevels(t *testing.T) {
	t.Parallel()
	answers := map[string]reply{"GET /v1/runs/demo/events": {200, recordedEvents(t)},
		"GET /v1/runs/demo/events?after=4-0&facts=true&limit=1000": {200, `{"events":[],"next":"4-0"}`}}
	for _, tt := range []struct {
		args []string
		want []string // the level and kind of each line
	}{
		{nil, []string{"INFO training_step", "WARN rollout_error", "ERROR rollout_error", "INFO later"}},
		{[]string{"--level", "warn"}, []string{"WARN rollout_error", "ERROR rollout_error"}},
		{[]string{"--level", "error"}, []string{"ERROR rollout_error"}},
		{[]string{"--step", "3"}, []string{"INFO training_step"}},
		{[]string{"--step", "9"}, nil},
		{[]string{"--last", "1"}, []string{"INFO later"}},
	} {
		r, _ := command(t, answers, "", nil, append([]string{"events", "demo"}, tt.args...)...)
		var got []string
		for line := range strings.Lines(r.stdout) {
			fields := strings.Fields(line)
			at := 2
			if fields[0] == "-" { // of a kind whose time is not known
				at = 1
			}
			got = append(got, strings.Join(fields[at:at+2], " "))
		}
		if strings.Join(got, ",") != strings.Join(tt.want, ",") || r.code != ExitOK {
			t.Errorf("%v: %q, exit code %d\n%s%s", tt.args, got, r.code, r.stdout, r.stderr)
		}
		harmless(t, r.stdout)
	}
	for _, args := range [][]string{{"--level", "loud"}, {"--last", "-1"}, {"--step", "-2"}} {
		if r, _ := command(t, nil, "", nil, append([]string{"events", "demo"}, args...)...); r.code != ExitUsage {
			t.Errorf("%v: exit code %d", args, r.code)
		}
	}
}

func TestEventsOfAllRuns(t *testing.T) {
	t.Parallel()
	const fleet = `{"events":[{"id":"2-0","kind":"engine_changed","data":{"kind":"engine_changed","state":"lost"}}],"next":"2-0"}`
	answers := map[string]reply{
		"GET /v1/runs":             {200, `{"runs":[{"spec":{"name":"demo"}}]}`},
		"GET /v1/runs/demo/events": {200, recordedEvents(t)}, "GET /v1/events": {200, fleet},
		"GET /v1/runs/demo/events?after=4-0&facts=true&limit=1000": {200, `{"events":[],"next":"4-0"}`},
		"GET /v1/events?after=2-0&facts=true&limit=1000":           {200, `{"events":[],"next":"2-0"}`},
	}
	r, _ := command(t, answers, "", nil, "events", "-o", "ndjson")
	var got []string
	for line := range strings.Lines(r.stdout) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, e.Run+":"+e.Kind)
	}
	want := "demo:training_step :engine_changed demo:rollout_error demo:rollout_error demo:later"
	if strings.Join(got, " ") != want {
		t.Errorf("%v\nwant %s\n%s", got, want, r.stderr)
	}
	harmless(t, r.stdout)
	if r, _ := command(t, answers, "", nil, "events", "--last", "1"); !strings.Contains(r.stdout, "  demo  ") ||
		strings.Count(r.stdout, "\n") != 1 {
		t.Error(r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"events", "NO"}, {"events", "--last", "-1"}, {"events", "-f", "-o", "yaml"},
		{"events", "--game", "4/1"}} {
		if r, _ := command(t, answers, "", nil, args...); r.code != ExitUsage {
			t.Errorf("%v: exit code %d", args, r.code)
		}
	}
	if r, _ := command(t, nil, "", nil, "events", "nobody"); r.code != ExitNotFound {
		t.Errorf("nobody's: exit code %d", r.code)
	}
}
