package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	speckeys "github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
)

func TestRunLife(t *testing.T) {
	t.Parallel()
	f := serve(t, func(_ *api.Config, d *api.Deps) {
		d.FleetView = func(context.Context, rollout.RunName, time.Time, time.Time) (steprecord.FleetView, error) {
			return steprecord.FleetView{Engines: 2, OutputTPS: 100}, nil
		}
		d.Diagnose = func(_ context.Context, run rollout.RunName, _ api.DiagnosisQuery) (any, error) {
			return map[string]any{"run": run, "regime": "capacity-bound"}, nil
		}
	})
	body, err := json.Marshal(spec())
	if err != nil {
		t.Fatal(err)
	}
	started := f.want(f.do("POST", "/v1/runs", string(body), "Content-Type", "application/yaml"), 201)
	if got := started.header.Get("Location"); got != "/v1/runs/demo" {
		t.Errorf("location %q", got)
	}
	f.want(f.do("POST", "/v1/runs", string(body)), 200)
	f.ready(0, 1, 2)

	var view api.RunView
	f.want(f.do("GET", "/v1/runs/demo", ""), 200).into(&view)
	if view.Spec.Name != run || view.State != runstatus.RunRunning || view.Buffer.Ready != 3 || view.ReadyDepth != 1.5 ||
		view.Fleet == nil || view.Fleet.Engines != 2 || view.Waits == nil {
		t.Errorf("view: %+v", view)
	}
	var runs struct{ Runs []runstatus.RunStatus }
	f.want(f.do("GET", "/v1/runs", ""), 200).into(&runs)
	if len(runs.Runs) != 1 || runs.Runs[0].Spec.Environment.Kind != "tictactoe" {
		t.Errorf("runs: %+v", runs)
	}
	var changed runstatus.RunStatus
	f.want(f.do("PATCH", "/v1/runs/demo", `{"buffer":{"depth":4}}`), 200).into(&changed)
	if changed.Spec.Buffer.Depth != 4 {
		t.Errorf("changed: %+v", changed)
	}
	var diagnosis map[string]string
	f.want(f.do("GET", "/v1/runs/demo/diagnosis", ""), 200).into(&diagnosis)
	if diagnosis["regime"] != "capacity-bound" {
		t.Errorf("diagnosis: %v", diagnosis)
	}
	var stopped runstatus.RunStatus
	f.want(f.do("POST", "/v1/runs/demo/stop", `{"reason":"enough"}`), 200).into(&stopped)
	if stopped.State != runstatus.RunStopped || stopped.Reason != "enough" {
		t.Errorf("stopped: %+v", stopped)
	}
}

// asked is a control that notes what a run is to be changed to.
type asked struct {
	api.Control
	change speckeys.Change
}

func (a *asked) Change(_ context.Context, _ rollout.RunName, c speckeys.Change) (runstatus.RunStatus, error) {
	a.change = c
	return runstatus.RunStatus{Spec: spec()}, nil
}

// TestChanges: what is sent reaches the run, and nothing else does.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"buffer":{"depth":4,"groups_per_step":8,"max_staleness":0,"on_stale":"wait"}}`,
		`{"group":{"samples":4,"min_samples":2,"oversample":0,"grace":"1m30s","zero_variance":"drop"}}`,
		`{"paused":true,"steps":9,"buffer":{"max_bytes":2147483648}}`,
	} {
		control := &asked{}
		f := serve(t, func(_ *api.Config, d *api.Deps) { d.Control = control })
		f.want(f.do("PATCH", "/v1/runs/demo", body), 200)
		if !sameJSON(t, control.change, json.RawMessage(body)) {
			t.Errorf("%s became %+v", body, control.change)
		}
		f.want(f.do("PATCH", "/v1/runs/demo", mergePatch(t, control.change)), 200)
		if !sameJSON(t, control.change, json.RawMessage(body)) {
			t.Errorf("%s as a merge patch became %+v", body, control.change)
		}
	}
}

// mergePatch is a change by the paths of the run spec, without short names.
func mergePatch(t *testing.T, c speckeys.Change) string {
	t.Helper()
	patch := map[string]any{}
	if c.Paused != nil {
		patch["paused"] = *c.Paused
	}
	for path, value := range c.Set {
		section, name, nested := strings.Cut(path, ".")
		if !nested {
			patch[section] = value
			continue
		}
		if patch[section] == nil {
			patch[section] = map[string]any{}
		}
		patch[section].(map[string]any)[name] = value
	}
	text, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDepartures: a run shows how its groups left, trained on or dropped, by the length of their games.
func TestDepartures(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	var view api.RunView
	f.want(f.do("GET", "/v1/runs/demo", ""), 200).into(&view)
	if view.Departures == nil || len(view.Departures) > 0 {
		t.Errorf("departures of a run that has just begun: %+v, want an empty list", view.Departures)
	}
	f.ready(0, 1)
	f.attach()
	f.want(f.do("POST", "/v1/runs/demo/steps/0/claim?generation=1", ""), 200)
	f.want(f.do("PUT", "/v1/runs/demo/steps/0", `{"generation":1,"wall_seconds":1}`), 201)
	let := rollout.GroupRef{Run: run, Seq: 2}
	if _, err := f.store.Queue(t.Context(), let, []byte("s"), 0, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := f.store.Discard(t.Context(), let, "shrunk"); err != nil {
		t.Fatal(err)
	}
	f.want(f.do("GET", "/v1/runs/demo", ""), 200).into(&view)
	groups := map[rollout.Code]int64{}
	for _, d := range view.Departures {
		groups[d.Code] = d.Groups
	}
	if len(groups) != 2 || groups[steprecord.Trained] != 2 || groups["shrunk"] != 1 ||
		view.Departures[0].Code != steprecord.Trained {
		t.Errorf("departures: %+v", view.Departures)
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	var p runstatus.Policy
	f.want(f.do("PUT", "/v1/runs/demo/policies/1", `{"path":"/adapters/1"}`), 200).into(&p)
	if p.Adapter != "demo-v1" || p.State != runstatus.PolicyServing {
		t.Errorf("published: %+v", p)
	}
	f.want(f.do("GET", "/v1/runs/demo/policies/1", ""), 200).into(&p)
	var list struct{ Policies []runstatus.Policy }
	f.want(f.do("GET", "/v1/runs/demo/policies", ""), 200).into(&list)
	if len(list.Policies) != 1 || p.Path != "/adapters/1" {
		t.Errorf("policies: %+v, %+v", p, list)
	}
	f.want(f.do("PUT", "/v1/engines/gpu-0", `{"url":"http://127.0.0.1:9"}`), 200)
	lacks := fleet.Observation{State: enginestate.EngineReady, Troubles: map[string]string{"demo-v1": "no such file"},
		Proofs: map[string]enginestate.AdapterProof{"demo-v1": {Verdict: enginestate.DoesNotAct, FromTrainer: 0.3}}}
	if err := f.fleet.Observe(t.Context(), "gpu-0", lacks); err != nil {
		t.Fatal(err)
	}
	var shown struct{ Policies []runstatus.Policy }
	f.want(f.do("GET", "/v1/runs/demo", ""), 200).into(&shown)
	if len(shown.Policies) != 1 || shown.Policies[0].Reason != "engine gpu-0: no such file" ||
		shown.Policies[0].Proofs["gpu-0"] != lacks.Proofs["demo-v1"] {
		t.Errorf("policies: %+v, want the engine that lacks it", shown.Policies)
	}
}

func TestEngines(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	var e enginestate.Engine
	f.want(f.do("PUT", "/v1/engines/gpu-0", `{"url":"http://127.0.0.1:9","max_in_flight":8}`), 200).into(&e)
	if e.ID != "gpu-0" || e.MaxInFlight != 8 || e.State != enginestate.EngineStarting {
		t.Errorf("added: %+v", e)
	}
	var list struct{ Engines []enginestate.Engine }
	f.want(f.do("GET", "/v1/engines", ""), 200).into(&list)
	if len(list.Engines) != 1 {
		t.Errorf("engines: %+v", list)
	}
	f.want(f.do("POST", "/v1/engines/gpu-0/drain", ""), 200)
	f.want(f.do("DELETE", "/v1/engines/gpu-0", ""), 204)
}

func TestEventsAreListed(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.events.add("a", `{"n":1}`)
	f.events.add("b", `{"n":2}`)
	var list struct{ Events []api.Event }
	f.want(f.do("GET", "/v1/runs/demo/events?after=1", ""), 200).into(&list)
	if len(list.Events) != 1 || list.Events[0].Kind != "b" {
		t.Errorf("events: %+v", list)
	}
	f.want(f.do("GET", "/v1/events?limit=1", ""), 200).into(&list)
	if len(list.Events) != 1 || list.Events[0].Kind != "a" {
		t.Errorf("fleet events: %+v", list)
	}
	f.refused(f.do("GET", "/v1/runs/nobody/events", "", "Accept", "text/event-stream"), 404, "no-such-run")
}

// stream opens an event stream and answers a reader of whole messages, without comments.
func (f *fixture) stream(lastID string) (next func() string, closeIt func()) {
	f.t.Helper()
	req, err := http.NewRequest("GET", f.url+"/v1/runs/demo/events", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", lastID)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		f.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		var message []string
		for lines.Scan() {
			line := lines.Text()
			if line != "" {
				message = append(message, line)
				continue
			}
			if text := strings.Join(message, "|"); strings.HasPrefix(text, "id: ") {
				return text
			}
			message = nil
		}
		return "end"
	}, func() { _ = resp.Body.Close() }
}

func TestEventStreamResumes(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	f.start()
	f.events.add("a", `{"n":1}`)
	next, closeIt := f.stream("")
	if got, want := next(), `id: 1|event: a|data: {"n":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.events.add("b", "{\n\"n\":2}")
	if got, want := next(), `id: 2|event: b|data: {|data: "n":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	closeIt()
	f.events.add("c", `{"n":3}`)
	next, closeIt = f.stream("2")
	defer closeIt()
	if got, want := next(), `id: 3|event: c|data: {"n":3}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.stop()
	if got := next(); got != "end" {
		t.Errorf("a stopped server sent %s", got)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	var doc struct {
		OpenAPI string
		Paths   map[string]map[string]struct {
			OperationID, Summary string
			RequestBody          struct {
				Content map[string]struct {
					Schema struct{ ContentMediaType string }
				}
			}
		}
		Components struct{ Schemas map[string]any }
	}
	a := f.want(f.do("GET", "/openapi.json", ""), 200)
	a.into(&doc)
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	ids := map[string]string{}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s has no id or summary", method, path)
			}
			if other, twice := ids[op.OperationID]; twice {
				t.Errorf("%s is the id of %s and of %s", op.OperationID, other, path)
			}
			ids[op.OperationID] = path
			for kind, body := range op.RequestBody.Content {
				if body.Schema.ContentMediaType != "" {
					t.Errorf("%s is said to take any bytes, as %s", op.OperationID, kind)
				}
			}
		}
	}
	for _, id := range []string{"start-run", "attach-trainer", "claim-step", "complete-step", "publish-policy",
		"follow-events", "diagnose-run", "add-engine"} {
		if ids[id] == "" {
			t.Errorf("%s is not in the document", id)
		}
	}
	checkReferences(t, a.body, doc.Components.Schemas)
	if !strings.Contains(string(a.body), "Millrace run spec") {
		t.Error("the spec's schema is not in the document")
	}
	for _, outside := range []string{"unpkg.com", "$schema"} {
		if strings.Contains(string(a.body), outside) {
			t.Errorf("the document refers to %s", outside)
		}
	}
}

// checkReferences finds references to schemas that are not there.
func checkReferences(t *testing.T, document []byte, schemas map[string]any) {
	t.Helper()
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	var all any
	if err := json.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	walk(all)
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	if got := f.do("GET", "/healthz", "", "X-Request-Id", "mine-1").header.Get("X-Request-Id"); got != "mine-1" {
		t.Errorf("got %q, want the client's own", got)
	}
	for _, unfit := range []string{"", strings.Repeat("x", 65), "a b", "\"quoted\""} {
		if got := f.do("GET", "/healthz", "", "X-Request-Id", unfit).header.Get("X-Request-Id"); got == "" || got == unfit {
			t.Errorf("sent %q, got %q", unfit, got)
		}
	}
}

// A server is ready without Temporal, because claims go on, and says so.
func TestReadinessTellsOfTemporal(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		f := serve(t, func(_ *api.Config, d *api.Deps) { d.Temporal = func() bool { return answers } })
		got, want := f.do("GET", "/readyz", ""), fmt.Sprintf(`{"ready":true,"temporal":%v}`, answers)
		f.want(got, 200)
		if body := strings.TrimSpace(string(got.body)); body != want {
			t.Errorf("%s, want %s", body, want)
		}
	}
}

func TestReadinessFollowsWhatStandsBehind(t *testing.T) {
	t.Parallel()
	f := serve(t, func(_ *api.Config, d *api.Deps) {
		d.Ready = func(context.Context) error { return context.DeadlineExceeded }
		d.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("millrace_up 1\n"))
		})
	})
	f.refused(f.do("GET", "/readyz", ""), 503, "unavailable")
	f.want(f.do("GET", "/healthz", ""), 200)
	f.want(f.do("GET", "/metrics", ""), 200)
}

// TestLoadProbe begins a probe at half of what the run has in flight, once, and ends it.
func TestLoadProbe(t *testing.T) {
	t.Parallel()
	f := serve(t, nil)
	body, err := json.Marshal(spec())
	if err != nil {
		t.Fatal(err)
	}
	f.want(f.do("POST", "/v1/runs", string(body)), 201)
	if p := f.want(f.do("POST", "/v1/runs/demo/probe", ""), 409).problem(); !strings.Contains(p.Detail, "no step") {
		t.Errorf("before the first step: %s", p.Detail)
	}
	f.want(f.do("POST", "/v1/runs/demo/probe", `{"steps":21}`), 422)
	f.want(f.do("POST", "/v1/runs/nobody/probe", ""), 404)
}
