package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
)

// startTestEngine starts an engine that does nothing as a worker of a deployment does, which then looks after it until
// this process ends.
func startTestEngine(ctx context.Context, dir, deployment string) (*engineprocess.Provider, error) {
	p, err := engineprocess.New(engineprocess.Config{Command: "sh -c 'exec sleep 600' {port}", StateDir: dir,
		Grace: rollout.Duration(5 * time.Second)}, deployment)
	if err != nil {
		return nil, err
	}
	return p, p.Start(ctx, "engine-1")
}

// TestOrphanedEngines lists and stops the engines of deployments that have no worker on this host any more.
func TestOrphanedEngines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() {
		if err := engineprocess.StopAll(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	orphans := func(want int, says string, args ...string) string {
		t.Helper()
		code, stdout, stderr := commanded(append([]string{"engine", "orphans", "--state-dir", dir}, args...)...)
		if code != want || !strings.Contains(stdout+stderr, says) {
			t.Errorf("%v: exit code %d, want %d and %q\n%s%s", args, code, want, says, stdout, stderr)
		}
		return stdout
	}
	orphans(0, "no engine in "+dir+" is without a worker of its deployment (0 deployments have one)")
	worker, err := startTestEngine(t.Context(), dir, "ours")
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.KeepAlive(worker) // which looks after its engine
	started := millrace(t, startsEngine, dir, "theirs")
	if code := started.exit(); code != 0 {
		t.Fatalf("the other deployment's worker ended with %d", code)
	}

	if listed := orphans(0, "engine-1"); !strings.Contains(listed, "theirs") || strings.Contains(listed, "ours") {
		t.Errorf("listed\n%s", listed)
	}
	var found struct {
		Deployments []engineprocess.Deployment `json:"deployments"`
	}
	if err := json.Unmarshal([]byte(orphans(0, "", "-o", "json")), &found); err != nil || len(found.Deployments) != 1 {
		t.Fatalf("as JSON: %+v, %v", found, err)
	}
	orphans(1, "no engines of a deployment nobodys are on this host", "--stop", "nobodys")
	orphans(1, "deployment ours has a worker on this host", "--stop", "ours")
	orphans(0, "may be restarting; name it to stop them", "--stop")
	orphans(0, "engine-1")

	before := time.Now().Add(-2 * restarting)
	if err := os.Chtimes(filepath.Join(found.Deployments[0].Folder, ".workers"), before, before); err != nil {
		t.Fatal(err)
	}
	orphans(0, "1 engines of theirs are stopped", "--stop")
	orphans(0, "(1 deployments have one)")

	if code := millrace(t, startsEngine, dir, "theirs").exit(); code != 0 {
		t.Fatalf("the other deployment's next worker ended with %d", code)
	}
	orphans(0, "1 engines of theirs are stopped", "--stop", "theirs")
	if left, err := engineprocess.Deployments(t.Context(), dir); err != nil || len(left) != 1 || left[0].Name != "ours" {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// TestOrphanedEnginesAreWhereTheConfigurationHasThem: without --state-dir.
func TestOrphanedEnginesAreWhereTheConfigurationHasThem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "service.yaml")
	text := "scaling: {provider: process, min: 0, max: 1,\n  process: {command: 'e {port}', state_dir: " + dir +
		"/engines}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, said := commanded("engine", "orphans", "-c", file)
	if code != 0 || !strings.Contains(said, dir+"/engines") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
