package server

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/archive"
)

// millrace runs a command line against the server with a token.
func (s *served) millrace(token string, args ...string) (code int, said string) {
	s.t.Helper()
	var stderr bytes.Buffer
	for _, cmd := range cli.Commands(cli.Deps{Stdout: io.Discard, Stderr: &stderr, HTTP: s.http,
		Getenv: func(name string) string {
			return map[string]string{"MILLRACE_SERVER": s.url, "MILLRACE_TOKEN": token}[name]
		}}) {
		if cmd.Name() != args[0] {
			continue
		}
		cmd.SetArgs(args[1:])
		err := cmd.ExecuteContext(s.t.Context())
		return cli.ExitCode(err), fmt.Sprint(stderr.String(), err)
	}
	s.t.Fatalf("there is no command %s", args[0])
	return 0, ""
}

// A run with a trainer is archived with a reader's token: nothing of it changes, its trainer goes on with its
// generation. Once it is over an operator archives it for good: the batches are the claims' own documents, and the run
// is unknown afterwards.
func TestAnArchiveIsWhatTheRunHeld(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	store, run, dir := s.store(), rollout.RunName("b-1"), t.TempDir()
	s.want(http.StatusNotFound, "GET", "/v1/runs/b-1/steps/0/batch", tokenOf("read"), "")
	claims := map[string]string{}
	for step := range 4 {
		s.grant(store, run, step)
		claims[fmt.Sprintf("batches/%d.json", step)] = s.want(http.StatusOK, "POST",
			fmt.Sprintf("/v1/runs/b-1/steps/%d/claim", step), tokenOf("op"), "").body
		s.want(http.StatusCreated, "PUT", fmt.Sprintf("/v1/runs/b-1/steps/%d", step), tokenOf("op"), `{"wall_seconds":1}`)
	}
	s.grant(store, run, 4)
	s.want(http.StatusConflict, "GET", "/v1/runs/b-1/steps/0/batch", tokenOf("read"), "")
	s.want(http.StatusNotFound, "GET", "/v1/runs/b-1/steps/5/batch", tokenOf("read"), "")
	s.want(http.StatusOK, "POST", "/v1/runs/b-1/trainer", tokenOf("op"), "")

	before := s.want(http.StatusOK, "GET", "/v1/runs/b-1", tokenOf("read"), "").body
	if code, said := s.millrace(tokenOf("read"), "run", "archive", "b-1", "--to", filepath.Join(dir, "so-far.tar.gz"),
		"--keep"); code != 0 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if after := s.want(http.StatusOK, "GET", "/v1/runs/b-1", tokenOf("read"), "").body; after != before {
		t.Errorf("archived it is %s\nand it was %s", after, before)
	}
	claims["batches/4.json"] = s.want(http.StatusOK, "POST", "/v1/runs/b-1/steps/4/claim?generation=1", tokenOf("op"),
		"").body
	s.want(http.StatusCreated, "PUT", "/v1/runs/b-1/steps/4", tokenOf("op"), `{"wall_seconds":1,"generation":1}`)

	status, err := store.Status(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	status.State, status.EndedAt = runstatus.RunCompleted, time.Now()
	if err := store.SaveStatus(t.Context(), status, 0); err != nil {
		t.Fatal(err)
	}
	if code, said := s.millrace(tokenOf("read"), "run", "archive", "b-1", "--to", dir); code != cli.ExitAuth ||
		!strings.Contains(said, "the archive is whole") {
		t.Errorf("a reader who deletes: exit code %d: %s", code, said)
	}
	if code, said := s.millrace(tokenOf("op"), "run", "archive", "b-1", "--to",
		filepath.Join(dir, "last.tar.gz")); code != 0 || !strings.Contains(said, "has 5 steps") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	s.want(http.StatusNotFound, "GET", "/v1/runs/b-1", tokenOf("op"), "")
	if code, _ := s.millrace(tokenOf("op"), "run", "archive", "b-1", "--to", dir); code != cli.ExitNotFound {
		t.Errorf("archived again: exit code %d", code)
	}

	members := opened(t, filepath.Join(dir, "last.tar.gz"))
	if n := strings.Count(members["steps.ndjson"], "\n"); n != 5 ||
		!strings.HasPrefix(members["steps.ndjson"], `{"step":0,`) {
		t.Errorf("%d lines of steps: %s", n, members["steps.ndjson"])
	}
	if !strings.Contains(members["events.ndjson"], `"kind":"audit"`) ||
		!strings.Contains(members["events.ndjson"], `"kind":"training_step"`) ||
		!strings.Contains(members["run.json"], `"departures":`) {
		t.Errorf("events: %s\nrun: %s", members["events.ndjson"], members["run.json"])
	}
	for step, kept := range []bool{false, false, false, true, true} {
		name := fmt.Sprintf("batches/%d.json", step)
		if got, there := members[name]; there != kept || kept && got != claims[name] {
			t.Errorf("%s: there: %v: %s\nclaimed: %s", name, there, got, claims[name])
		}
	}
}

// opened is what any tar makes of an archive, after it was checked.
func opened(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Check(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	members := map[string]string{}
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if err == io.EOF {
			return members
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		members[head.Name] = string(text)
	}
}
