package resources_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/markdowntest"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/observe/axiom/resources"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func connect(t *testing.T, fake *axiomtest.Server) resources.Caller {
	t.Helper()
	c, err := resources.Connect("xaat-test", "", "http://axiom.test", &http.Client{Transport: fake})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// apply plans and applies, and returns what was to be changed: action, kind and name of each.
func apply(t *testing.T, c resources.Caller, o resources.Options) ([]string, error) {
	t.Helper()
	plan, err := resources.Plan(t.Context(), c, resources.Wanted("rl"), o, now)
	if err != nil {
		return nil, err
	}
	err = resources.Apply(t.Context(), plan, func(resources.Change, error) {})
	return changes(plan), err
}

func changes(plan []resources.Change) []string {
	var out []string
	for _, c := range plan {
		if c.Action != resources.Keep {
			out = append(out, fmt.Sprintf("%s %s %s", c.Action, c.Kind, c.Name))
		}
	}
	return out
}

var roomy = axiomtest.Limits{Monitors: 10}

// TestApplyTwice makes all there is, and then has nothing to do.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	c := connect(t, &axiomtest.Server{Strict: true, Limits: roomy})
	first, err := apply(t, c, resources.Options{})
	if err != nil || len(first) < 12 || first[0] != "create dataset rl" {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := apply(t, c, resources.Options{}); err != nil || len(again) > 0 {
		t.Errorf("the second time: %q, %v", again, err)
	}
}

// TestPlanChangesNothing is the dry run.
func TestPlanChangesNothing(t *testing.T) {
	t.Parallel()
	c := connect(t, &axiomtest.Server{Strict: true, Limits: roomy})
	for range 2 {
		plan, err := resources.Plan(t.Context(), c, resources.Wanted("rl"), resources.Options{}, now)
		if got := changes(plan); err != nil || !slices.Contains(got, "create dataset rl") {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestWhatPeopleChanged: their notifiers and switches stay, and what they changed of ours is put right, with the
// difference said.
func TestWhatPeopleChanged(t *testing.T) {
	t.Parallel()
	c := connect(t, &axiomtest.Server{Strict: true, Limits: roomy})
	ctx := t.Context()
	if _, err := apply(t, c, resources.Options{}); err != nil {
		t.Fatal(err)
	}
	var notifier struct{ ID string }
	must(t, c.Call(ctx, "POST", "/v2/notifiers", map[string]any{"name": "on-call",
		"properties": map[string]any{"email": map[string]any{"emails": []string{"a@example.com"}}}}, &notifier))
	var monitors []map[string]any
	must(t, c.Call(ctx, "GET", "/v2/monitors", nil, &monitors))
	m := monitors[0]
	m["notifierIds"], m["disabled"], m["threshold"] = []string{notifier.ID}, true, 0.9
	must(t, c.Call(ctx, "PUT", "/v2/monitors/"+m["id"].(string), m, &m))
	var boards []struct {
		UID       string
		Version   int64
		Dashboard map[string]any
	}
	must(t, c.Call(ctx, "GET", "/v2/dashboards", nil, &boards))
	chart := boards[1].Dashboard["charts"].([]any)[2].(map[string]any)
	chart["name"] = "Mine"
	boards[1].Dashboard["owner"] = ""
	must(t, c.Call(ctx, "PUT", "/v2/dashboards/uid/"+boards[1].UID, map[string]any{"dashboard": boards[1].Dashboard,
		"version": boards[1].Version}, &struct{}{}))

	plan, err := resources.Plan(ctx, c, resources.Wanted("rl"), resources.Options{}, now)
	must(t, err)
	var diffs []string
	for _, p := range plan {
		for _, d := range p.Diff {
			diffs = append(diffs, p.Name+": "+d)
		}
	}
	if want := []string{
		`Millrace rl: starvation: charts[longest].name: "Mine" -> "Longest wait of a step (s)"`,
		`Millrace rl: starved share: threshold: 0.9 -> 0.2`,
	}; !slices.Equal(diffs, want) {
		t.Errorf("differences %q", diffs)
	}
	must(t, resources.Apply(ctx, plan, func(resources.Change, error) {}))
	must(t, c.Call(ctx, "GET", "/v2/monitors", nil, &monitors))
	if m := monitors[0]; m["disabled"] != true || fmt.Sprint(m["notifierIds"]) != "["+notifier.ID+"]" ||
		m["threshold"] != 0.2 {
		t.Errorf("%v", m)
	}
	// A notifier that is named is attached to all, once.
	if got, err := apply(t, c, resources.Options{Notifiers: []string{"on-call"}}); err != nil || len(got) != 4 {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := apply(t, c, resources.Options{Notifiers: []string{"on-call"}}); err != nil || len(got) != 0 {
		t.Errorf("again: %q, %v", got, err)
	}
	if _, err := apply(t, c, resources.Options{Notifiers: []string{"nobody"}}); err == nil ||
		!strings.Contains(err.Error(), `no notifier is named "nobody"; Axiom has on-call`) {
		t.Error(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMissingPermissions names what the token lacks: Axiom says "forbidden" alone.
func TestMissingPermissions(t *testing.T) {
	t.Parallel()
	all := []string{"datasets|read", "datasets|create", "datasets|update", "ingest|create", "dashboards|read",
		"dashboards|create", "monitors|read", "monitors|create"}
	for _, lacking := range all {
		t.Run(lacking, func(t *testing.T) {
			t.Parallel()
			rest := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == lacking })
			fake := &axiomtest.Server{Strict: true, Limits: roomy, Permissions: rest}
			_, err := apply(t, connect(t, fake), resources.Options{})
			what, how, _ := strings.Cut(lacking, "|")
			if !errors.Is(err, resources.ErrRefused) ||
				!strings.Contains(err.Error(), "the token lacks the permission "+what+": "+how) {
				t.Errorf("%v", err)
			}
		})
	}
	c, err := resources.Connect("xaat-other", "", "http://axiom.test",
		&http.Client{Transport: &axiomtest.Server{Token: "xaat-test"}})
	must(t, err)
	if _, err := apply(t, c, resources.Options{}); !errors.Is(err, resources.ErrRefused) {
		t.Error(err)
	}
}

// TestSmallPlan: what the plan does not allow is said, and the rest is made.
func TestSmallPlan(t *testing.T) {
	t.Parallel()
	c := connect(t, &axiomtest.Server{Strict: true})
	_, err := apply(t, c, resources.Options{})
	if err == nil || strings.Count(err.Error(), "the plan allows 3 monitors") != 2 {
		t.Errorf("%v", err)
	}
	left, err := apply(t, c, resources.Options{})
	if len(left) != 2 || err == nil {
		t.Errorf("left %q, %v", left, err)
	}
}

// TestQueries: each query of the dashboards and monitors is as committed, and reads fields that events have. Whoever
// changes one tries it in Axiom; -update writes the file.
func TestQueries(t *testing.T) {
	t.Parallel()
	known := resources.FullRow(now)
	var text strings.Builder
	all := queries(resources.Wanted("rl"))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s\n%s\n\n", name, all[name])
		for _, field := range fields(all[name]) {
			if _, is := known[field]; !is {
				t.Errorf("%s reads the field %s, which no event has", name, field)
			}
		}
	}
	markdowntest.File(t, "testdata/queries.txt", text.String())
}

// names are words of a query that are neither quoted nor followed by ( or =.
var names = regexp.MustCompile(`'[^']*'|"[^"]*"|[a-zA-Z_][a-zA-Z0-9_]*\s*[(=]?`)

// fields are the names in a query that look like those of events: with an underscore, and not made by the query itself.
func fields(query string) []string {
	var read []string
	made := map[string]bool{}
	for _, word := range names.FindAllString(query, -1) {
		name := strings.TrimRight(word, " \n\t(=")
		switch {
		case strings.ContainsAny(word, "'\"("):
		case strings.HasSuffix(word, "="):
			made[name] = true
		case strings.Contains(name, "_") && !made[name] && !slices.Contains(read, name):
			read = append(read, name)
		}
	}
	return slices.DeleteFunc(read, func(name string) bool { return made[name] })
}

// queries are all of a set, by dashboard and chart, or by monitor.
func queries(s resources.Set) map[string]string {
	all := map[string]string{}
	for _, d := range s.Dashboards {
		for _, c := range d.Charts {
			all[d.Name+", "+c.ID] = c.Query.APL
		}
	}
	for _, m := range s.Monitors {
		all[m.Name] = m.APLQuery
	}
	return all
}

// TestFieldLimitIsNotReached: a dataset that was applied to takes every kind of event, and trainers' own names without
// end, in the fields of the smallest plan.
func TestFieldLimitIsNotReached(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Strict: true, Limits: roomy}
	c := connect(t, fake)
	if _, err := apply(t, c, resources.Options{}); err != nil {
		t.Fatal(err)
	}
	metrics := map[string]float64{}
	for i := range 1000 {
		metrics[fmt.Sprintf("layer.%d/grad", i)] = 1
	}
	rows := []telemetry.Row{resources.FullRow(now), {"kind": "training_step", "metrics": metrics, "own_phases_s": metrics},
		{"kind": "rollout_complete", "counts": metrics}}
	var status struct{ Ingested, Failed int }
	must(t, c.Call(context.Background(), "POST", "/v1/datasets/rl/ingest", rows, &status))
	var fields []json.RawMessage
	must(t, c.Call(t.Context(), "GET", "/v2/datasets/rl/fields", nil, &fields))
	if status.Ingested != 3 || len(fields) > 200 {
		t.Errorf("%+v, %d fields", status, len(fields))
	}
}
