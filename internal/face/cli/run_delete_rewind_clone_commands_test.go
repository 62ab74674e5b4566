package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/store/archive"
)

func TestAClonedSpecHasItsOwnNameAndSettings(t *testing.T) {
	t.Parallel()
	from := runspec.Spec{Name: "demo", Model: "m", Steps: 3, Seed: 1 << 60}
	text, err := cloned(from, "again", []string{"steps=9", "sampling.temperature=1.5", "model=other",
		"buffer.on_stale=keep"})
	if err != nil {
		t.Fatal(err)
	}
	var got runspec.Spec
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "again" || got.Steps != 9 || got.Sampling.Temperature != 1.5 || got.Model != "other" ||
		got.Seed != 1<<60 ||
		got.Buffer.OnStale != runspec.KeepStale {
		t.Errorf("%+v", got)
	}
	for _, bad := range [][]string{{"steps"}, {"name=x"}, {"steps.more=1"}, {"=1"}, {"steps=1", "steps=2"}} {
		if _, err := cloned(from, "again", bad); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
	if _, err := cloned(from, "demo@2", nil); err == nil {
		t.Error("an id passes as a name")
	}
}

// endDocuments are runs that are over, going on and unknown, and what the API says to ends of them.
func endDocuments() map[string]reply {
	view := func(name, state string) reply {
		return reply{200, `{"id":"` + name + `@2","spec":{"name":"` + name + `"},"state":"` + state +
			`","next_step":2,"buffer":{"completed":2}}`}
	}
	problem := func(status int, code, text string) reply {
		return reply{status, `{"type":"urn:millrace:problem:` + code + `","status":` + strconv.Itoa(status) +
			`,"detail":"` + text + `"}`}
	}
	conflict := problem(409, "conflict", "run demo is running; stop it first, or delete it by force")
	return map[string]reply{
		"GET /v1/runs/old": view("old", "completed"), "GET /v1/runs/old@2": view("old", "completed"),
		"GET /v1/runs/demo":   view("demo", "running"),
		"GET /v1/runs/demo@2": view("demo", "running"), "GET /v1/runs/cut": view("cut", "lost"),
		"GET /v1/runs/cut@2":               view("cut", "lost"),
		"GET /v1/runs/old@2/policies":      {200, `{"policies":[]}`},
		"GET /v1/runs/old@2/steps":         {200, `{"steps":[{"step":0},{"step":1}]}`},
		"GET /v1/runs/old@2/events":        {200, `{"events":[{"id":"1-0","kind":"run_changed","data":{}}],"next":""}`},
		"GET /v1/runs/old@2/steps/1/batch": {200, `{"run":"old","step":1}`},
		"GET /v1/runs/old@2/steps/0/batch": problem(409, "not-retained", "not kept"),
		"DELETE /v1/runs/old@2":            {200, `{"run":"old","id":"old@2"}`},
		"DELETE /v1/runs/old":              {200, `{"run":"old","id":"old@2"}`},
		"DELETE /v1/runs/demo":             conflict,
		"GET /v1/runs/demo@2/policies":     {200, `{"policies":[]}`},
		"GET /v1/runs/demo@2/steps":        {200, `{"steps":[]}`},
		"GET /v1/runs/demo@2/events":       {200, `{"events":[],"next":""}`},
		"GET /v1/runs/cut@2/policies":      {200, `{"policies":[]}`},
		"GET /v1/runs/cut@2/steps":         problem(500, "internal", "a record cannot be read"),
		"POST /v1/runs/old/trainer":        {200, `{"generation":3,"next_step":1,"policy_version":4}`},
		"POST /v1/runs/demo/trainer": problem(409, "not-retained", "the batch of step 0 is not kept; the oldest one "+
			"kept is step 1"),
		"POST /v1/runs":                     {200, `{"spec":{"name":"old"},"state":"completed","next_step":2}`},
		"GET /v1/runs/demo@2/steps/0/batch": problem(409, "not-retained", "not kept"),
		"GET /v1/runs/cut@2/steps/0/batch":  problem(409, "not-retained", "not kept"),
		"POST /v1/runs/demo@2/stop":         problem(503, "unavailable", "Temporal does not answer"),
	}
}

// TestEndsSayWhatTheyDid holds the commands that end runs to their texts, exit codes and calls.
func TestEndsSayWhatTheyDid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args, says string
		code       int
		last       string // call
	}{
		{"run delete old", "run old is deleted; what it held is removed within a minute", ExitOK, "DELETE /v1/runs/old"},
		{"run delete old --force", "run old is deleted", ExitOK, "DELETE /v1/runs/old?force=true"},
		{"run delete demo", "stop it first, or delete it by force", ExitError, "DELETE /v1/runs/demo"},
		{"run delete nobody", "no such thing", ExitNotFound, "DELETE /v1/runs/nobody"},
		{"run rewind old --to 1", "restore the checkpoint before step 1 and start it again; versions stay, the next to " +
			"publish is 5", ExitOK,
			`POST /v1/runs/old/trainer {"resume_from":1}`},
		{"run rewind old", "name the first one to train again with --to", ExitUsage, ""},
		{"run rewind demo --to 0", "the oldest one kept is step 1", ExitError,
			`POST /v1/runs/demo/trainer {"resume_from":0}`},
		{"run start -f -", "run old is completed already and was not started again; start its spec under another name " +
			"with: millrace run clone old NEW",
			ExitError, "POST /v1/runs name: old"},
		{"run archive old", "name a folder, or a file that ends in .tar.gz, with --to", ExitUsage, "GET /v1/runs/old"},
		{"run archive old --to DIR/none", "is no folder, and does not end in .tar.gz", ExitUsage, "GET /v1/runs/old"},
		{"run archive old --to DIR --keep --force", "use one of them", ExitUsage, ""},
		{"run archive old --to DIR/there.tar.gz", "is not overwritten", ExitError, "GET /v1/runs/old"},
		{"run archive old --to DIR/none/old.tar.gz", "no such file or directory", ExitError, "GET /v1/runs/old"},
		{"run archive nobody --to DIR", "no such thing", ExitNotFound, "GET /v1/runs/nobody"},
		{"run archive demo --to DIR", "stop it first, stop it now with --force, or leave it going with --keep", ExitError,
			"GET /v1/runs/demo"},
		{"run archive demo --to DIR --force", "Temporal does not answer", ExitUnavailable,
			`POST /v1/runs/demo@2/stop {"reason":"stopped to be archived"}`},
		{"run archive cut --to DIR", "a record cannot be read", ExitError, "GET /v1/runs/cut@2/steps?from=0&limit=200"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "there.tar.gz"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			got, s := command(t, endDocuments(), "name: old", nil, strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))...)
			text := got.stderr
			if got.err != nil {
				text += got.err.Error()
			}
			if got.code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("exit code %d, want %d: %s", got.code, tt.code, text)
			}
			if last := append([]string{""}, s.asked...)[len(s.asked)]; last != tt.last {
				t.Errorf("the last call is %q, want %q", last, tt.last)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
				t.Errorf("it left %v: %v", files, err)
			}
		})
	}
}

// TestARunIsDeletedOnceItsArchiveIsWhole: what --keep leaves out is the deletion; a run that is not deleted says
// where its archive is.
func TestARunIsDeletedOnceItsArchiveIsWhole(t *testing.T) {
	t.Parallel()
	unavailable, changing := endDocuments(), endDocuments()
	unavailable["DELETE /v1/runs/old@2"] = reply{503, `{"status":503,"detail":"redis does not answer"}`}
	changing["GET /v1/runs/old@2"] = reply{200,
		`{"id":"old@2","spec":{"name":"old"},"state":"completed","next_step":3,"buffer":{"completed":2}}`}
	for _, tt := range []struct {
		name, args, says string
		answers          map[string]reply
		code             int
		deletes          bool
	}{
		{"deleted", "run archive old --to DIR", "has 2 steps, 1 events and 1 batches of run old, ",
			endDocuments(), ExitOK, true},
		{"kept", "run archive old --to DIR/old@2.tar.gz --keep", "has 2 steps, 1 events and 1 batches of run old, ",
			endDocuments(), ExitOK, false},
		{"not deleted", "run archive old --to DIR", "old@2.tar.gz; delete the run with: millrace run delete old", unavailable,
			ExitUnavailable, true},
		{"changed", "run archive old --to DIR", "the run has changed while it was archived", changing, ExitError, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got, s := command(t, tt.answers, "", nil, strings.Fields(strings.ReplaceAll(tt.args, "DIR", dir))...)
			text := got.stderr
			if got.err != nil {
				text += got.err.Error()
			}
			if got.code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("exit code %d, want %d: %s", got.code, tt.code, text)
			}
			if slices.Contains(s.asked, "DELETE /v1/runs/old@2") != tt.deletes {
				t.Errorf("the calls were %q", s.asked)
			}
			file, err := os.Open(filepath.Join(dir, "old@2.tar.gz"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if m, err := archive.Check(file); err != nil || m.Run != "old" || m.ID != "old@2" ||
				m.Counts != (archive.Counts{Steps: 2, Events: 1, Batches: 1}) {
				t.Errorf("%s %s %+v: %v", m.Run, m.ID, m.Counts, err)
			}
		})
	}
}
