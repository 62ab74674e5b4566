package api_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/markdowntest"
)

// python is the interpreter, PYTHON if that is set; tests that need it are skipped without one.
func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("PYTHON"), "python3"))
	if err != nil {
		t.Skip("python3 is not on the PATH; the Python client is checked with it (Debian: apt-get install python3)")
	}
	return path
}

// TestPythonClient runs clients/python/millrace_check.py, once straight and once through a proxy that loses every
// second request: before it reaches the server, or after the server has done its work.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	for _, way := range []string{"straight", "lossy"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			f := serve(t, nil)
			f.want(f.do("POST", "/v1/runs", specBody(t, 4)), 201)
			f.ready(0, 1, 2, 3, 4, 5, 6, 7)
			address := f.url
			if way == "lossy" {
				address = lossy(t, f.url)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, interpreter, "-B", "millrace_check.py", address)
			cmd.Dir = "../../../clients/python"
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "checked") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestPythonTrackers runs the tests of what writes steps to W&B, TensorBoard and MLflow, with fakes of these, of what
// deletes adapters, and of what plays games; and, where there is numpy, of what makes arrays of a batch.
func TestPythonTrackers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("Python's alone: no Go code runs beside it")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	tests := []string{"-B", "-m", "unittest", "test_millrace_trackers", "test_millrace_heartbeat", "test_millrace_prune",
		"test_millrace_progress", "test_millrace_env", "test_millrace_trl", "test_millrace_tinker", "test_millrace_export",
		"test_grpo_kills"}
	if exec.CommandContext(ctx, python(t), "-c", "import numpy").Run() == nil {
		tests = append(tests, "test_millrace_rows")
	}
	cmd := exec.CommandContext(ctx, python(t), tests...)
	cmd.Dir = "../../../clients/python"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTrackersPage holds the table of docs/trackers.md to the list that steps are written by.
func TestTrackersPage(t *testing.T) {
	const show = "from millrace import metrics as m; print(m.table(), end='')"
	cmd := exec.CommandContext(t.Context(), python(t), "-B", "-c", show)
	cmd.Dir = "../../../clients/python"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	markdowntest.Hold(t, "../../../docs/trackers.md", "metrics", string(out))
}

// TestReadmeExample runs the trainer that the README shows, word for word but for the server's address and the
// run's name.
func TestReadmeExample(t *testing.T) {
	t.Parallel()
	interpreter := python(t)
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(readme), "```python\n")
	example, _, _ = strings.Cut(example, "```")
	f := serve(t, nil)
	f.want(f.do("POST", "/v1/runs", specBody(t, 2)), 201)
	f.ready(0, 1, 2, 3)
	example = strings.NewReplacer("http://127.0.0.1:8700", f.url, "diplomacy-qwen7b", "demo").Replace(example)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "-B", "-c", "def train(batch, adapter): assert batch['groups']\n"+example)
	cmd.Dir = "../../../clients/python"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	record := string(f.want(f.do("GET", "/v1/runs/demo/steps/1", ""), 200).body)
	for _, want := range []string{`"done":true`, `"publish":`, `"train":`} {
		if !strings.Contains(record, want) {
			t.Errorf("no %s in the record of step 1: %s", want, record)
		}
	}
}

// specBody is the fixture's spec with another number of steps.
func specBody(t *testing.T, steps int) string {
	t.Helper()
	s := spec()
	s.Steps = steps
	s.Adapters.PathPrefix, s.Sampling.Temperature = "/adapters", 1
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// lossy forwards to target and cuts the connection of two requests in three, one before and one after the server
// answers.
func lossy(t *testing.T, target string) string {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	var count atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch count.Add(1) % 3 {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL
}
