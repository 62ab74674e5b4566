package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/diagnosis/runrecord"
	"github.com/millrace/millrace/internal/face/cli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

// TestARecordIsWhatTheServerSays: a reader's token is enough, though it lacks the fleet then; the file is read as
// strictly as any, and steps and events are each there once.
func TestARecordIsWhatTheServerSays(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t)
	store, run, dir := s.store(), rollout.RunName("b-1"), t.TempDir()
	for step := range 3 {
		s.grant(store, run, step)
		s.want(http.StatusOK, "POST", fmt.Sprintf("/v1/runs/b-1/steps/%d/claim", step), tokenOf("op"), "")
		s.want(http.StatusCreated, "PUT", fmt.Sprintf("/v1/runs/b-1/steps/%d", step), tokenOf("op"),
			`{"wall_seconds":2,"phases":{"train":1}}`)
	}
	s.want(http.StatusOK, "POST", "/v1/runs/b-1/trainer", tokenOf("op"), "")
	s.until("the events are there", func() bool {
		return strings.Contains(s.want(http.StatusOK, "GET", "/v1/runs/b-1/events", tokenOf("read"), "").body, "audit")
	})
	for _, name := range []string{"b-1.json", "b-1.json.gz"} {
		path := filepath.Join(dir, name)
		if code, said := s.millrace(tokenOf("read"), "run", "record", "b-1", "-f", path); code != 0 ||
			!strings.Contains(said, "has 3 steps") {
			t.Fatalf("exit code %d: %s", code, said)
		} else if !strings.Contains(said, "missing: the engines: the token is for this run alone") {
			t.Errorf("nothing is said of the fleet: %s", said)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := runrecord.Read(path, file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range r.Events {
			if _, step := e.Body.(telemetry.StepCompleted); step || seen[e.ID()] {
				t.Errorf("event %s is there twice", e.ID())
			}
			seen[e.ID()] = true
		}
		if r.Run.Spec.Name != run || len(r.Done()) != 3 || len(r.Steps[2].Service.Groups) == 0 || len(r.Events) == 0 {
			t.Errorf("%d steps, %d events of run %s: %+v", len(r.Done()), len(r.Events), r.Run.Spec.Name, r.Steps)
		}
	}
	if code, said := s.millrace(tokenOf("read"), "run", "record", "b-9", "-f",
		filepath.Join(dir, "x")); code != cli.ExitNotFound {
		t.Errorf("a run that is not there: exit code %d: %s", code, said)
	}
	if code, said := s.millrace(tokenOf("read"), "run", "record", "b-1", "-f", dir); code != cli.ExitUsage {
		t.Errorf("into a folder: exit code %d: %s", code, said)
	}
}
