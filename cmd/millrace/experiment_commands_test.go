package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// experimentOutput runs `millrace experiment` with arguments.
func experimentOutput(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, say bytes.Buffer
	code = run(context.Background(), append([]string{"experiment"}, args...), strings.NewReader(""), &out, &say)
	return code, out.String(), say.String()
}

// ownExperiment is a file as somebody may write it.
const ownExperiment = `name: own
title: two windows
setting:
  arrivals: {process: even, calls: 10, gap: 20s}
  engine: {time: {per_batch: 1s}}
  dispatch: {batching: {max_batch_size: 4}}
parts:
  - name: windows
    title: windows
    arrivals: true
    axes: [{name: window, key: dispatch.batching.flush_window, values: [1s, 2s]}]
    columns: [latency_p50, makespan]
    baseline: window=1s
    figure: {kind: lines, x: window, y: latency_p50}
claims:
  - name: costs itself
    says: a window costs an idle engine's requests itself
    check: near(windows(window=2s).latency_p50 - windows(window=1s).latency_p50, 1, 0.001)
    shows: "{windows(window=2s).latency_p50 - windows(window=1s).latency_p50} s"
    expect: holds
`

func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExperimentOfAFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := writeFile(t, folder, "own.yaml", ownExperiment)
	code, text, say := experimentOutput(t, "run", file, "--compare", "--svg", folder)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, say)
	}
	for _, want := range []string{"windows: windows", "1s            2", "as multiples of window=1s", "x1.50", "HOLDS",
		"costs itself"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in:\n%s", want, text)
		}
	}
	svg, err := os.ReadFile(filepath.Join(folder, "own-windows.svg"))
	if err != nil || !bytes.Contains(svg, []byte("<svg")) {
		t.Errorf("the figure: %v", err)
	}
	_, again, _ := experimentOutput(t, "run", file, "-o", "json")
	var result struct {
		Claims []struct{ Verdict, Shows string }
	}
	if err := json.Unmarshal([]byte(again), &result); err != nil || len(result.Claims) != 1 ||
		result.Claims[0].Verdict != "holds" || result.Claims[0].Shows != "1 s" {
		t.Errorf("as JSON: %v, %+v", err, result)
	}
}

func TestExperimentWithOwnArrivals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := writeFile(t, folder, "own.yaml", ownExperiment)
	arrivals := writeFile(t, folder, "mine.json", `[{"time": 0, "prompts": 2}, {"time": 3, "prompts": 1}, {"time": 90}]`)
	code, text, say := experimentOutput(t, "run", file, "--arrivals", arrivals)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, say)
	}
	for _, want := range []string{"3 calls with 4 prompts", "gaps: mean 45 s", "NEXT CALL WITHIN", "50 %",
		"dispatch at once"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in:\n%s", want, text)
		}
	}
}

// TestExperimentRefusals: one error, with the place and what to do.
func TestExperimentRefusals(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	own := writeFile(t, folder, "own.yaml", ownExperiment)
	bad := func(name, old, new string) string {
		return writeFile(t, folder, name, strings.Replace(ownExperiment, old, new, 1))
	}
	back := writeFile(t, folder, "back.csv", "arrival_s\n3\n1\n")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "flush-windos"}, "there is no experiment flush-windos"},
		{[]string{"run", "00"}, "say more of the name"},
		{[]string{"run", "004", "--arrivals", back}, "the arrival at 1s comes after one at 3s: sort the rows"},
		{[]string{"run", own, "--arrivals", back}, "back.csv:3: the arrival at 1s comes after one at 3s: sort the rows"},
		{[]string{"run", own, "-o", "xml"}, "use table or json"},
		{[]string{"run", own, "--seeds", "-1"}, "--seeds -1"},
		{[]string{"run", bad("a.yaml", "gap: 20s", "gap: -1s")}, "a.yaml:4:40: setting.arrivals.gap: -1s is less than 0s"},
		{[]string{"run", bad("b.yaml", ", gap: 20s", "")}, "setting.arrivals.gap: is missing: the mean time between calls"},
		{[]string{"run", bad("c.yaml", "flush_window, values", "flush_windos, values")}, "did you mean"},
		{[]string{"run", bad("d.yaml", "latency_p50, makespan", "latency_p51")}, "there is no metric latency_p51; did you"},
		{[]string{"run", bad("e.yaml", "{per_batch: 1s}", "{}")}, "engine.time: is missing: how long a batch takes"},
		{[]string{"run", bad("f.yaml", "window=2s", "window=3s")},
			"f.yaml:18:5: claims[0].check: window of windows has no point 3s"},
		{[]string{"run", bad("g.yaml", "even, calls: 10", "trace, trace: none.csv")}, "none.csv: no such file"},
	} {
		code, _, say := experimentOutput(t, tt.args...)
		if code == 0 || !strings.Contains(say, tt.want) {
			t.Errorf("%v: exit code %d, %s\nwant %s", tt.args, code, say, tt.want)
		}
	}
}

func TestExperimentList(t *testing.T) {
	t.Parallel()
	code, text, say := experimentOutput(t, "list")
	if code != 0 || say != "" {
		t.Fatalf("exit code %d: %s", code, say)
	}
	for _, want := range []string{"000-flush-windows", "001-split-queues", "002-batching-sweep", "004-step-jump"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in:\n%s", want, text)
		}
	}
}
