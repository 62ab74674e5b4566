package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

// Whoever looks at a host sees every deployment's engines, and which deployments have no worker any more.
func TestDeploymentsOfAHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	ours, theirs := sleeping(dir, "ours"), sleeping(dir, "theirs")
	ours.GPUs, theirs.GPUs = []string{"0"}, []string{"0"}
	p, other := open(t, ours, "ours"), open(t, theirs, "their/s 7")
	if all, err := Deployments(t.Context(), dir); len(all) != 0 || err != nil {
		t.Fatalf("before anything was started: %+v, %v", all, err)
	}
	startFirst(t, p)
	if err := other.Start(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	await(t, other, "engine-1", "pending, with who has its GPU", func(e provider.Instance) bool {
		return strings.Contains(e.Reason, "(0: engine-1 of deployment ours)")
	})
	p.presence.end() // as when its process ends
	all, err := Deployments(t.Context(), dir)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	d := all[0]
	if d.Name != "ours" || d.HasWorker || time.Since(d.WorkerSeen) > time.Minute || len(d.Engines) != 1 ||
		d.Engines[0].PID == 0 || d.Engines[0].GPUs != "0" || d.Engines[0].State != enginestate.EngineRunning {
		t.Errorf("of the one whose worker has ended: %+v", d)
	}
	if d := all[1]; d.Name != "their/s 7" || !d.HasWorker || d.Engines[0].State != enginestate.EngineOrdered {
		t.Errorf("of the one with a worker: %+v", d)
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, dir, "engine-1")
	await(t, other, "engine-1", "running, where the other one was", runs)
	if err := StopAll(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// What waits for a place is stopped, and started by nobody who only stops.
func TestAllAreStoppedWithThoseThatWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	cfg := sleeping(dir, "ours")
	cfg.GPUs = []string{"0"}
	p := open(t, cfg, "ours")
	for _, id := range []rollout.EngineID{"engine-1", "engine-2", "engine-3"} {
		if err := p.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if err := StopAll(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if all, err := p.List(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("left: %+v, %v", all, err)
	}
	for _, id := range []rollout.EngineID{"engine-1", "engine-2", "engine-3"} {
		noneLeft(t, dir, id)
	}
}

// An engine whose files are damaged is listed as failed, holds its GPUs until it is stopped, and is stopped whole.
func TestEnginesWhoseFilesAreDamaged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, dir string)
	}{
		{"order is empty", func(t *testing.T, dir string) { write(t, dir, orderFile, "") }},
		{"order is half written", func(t *testing.T, dir string) { write(t, dir, orderFile, `{"id":"engine-1","non`) }},
		{"order is gone", func(t *testing.T, dir string) { remove(t, dir, orderFile) }},
		{"order, and the lock's text", func(t *testing.T, dir string) {
			write(t, dir, orderFile, "\x00\x00")
			write(t, dir, keeperLock, "")
		}},
		{"order, and the keeper was killed", func(t *testing.T, dir string) {
			write(t, dir, orderFile, "{}")
			pid, err := holder(filepath.Join(dir, keeperLock))
			if err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
				t.Fatal(pid, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cleanUp(t, dir)
			cfg := sleeping(dir, "ours")
			cfg.GPUs = []string{"0", "1"}
			cfg.Command = `sh -c 'setsid sleep 600 & sleep 600' {port}`
			p := open(t, cfg, "ours")
			startFirst(t, p)
			tt.damage(t, filepath.Join(p.dir, "engine-1"))
			if e := await(t, p, "engine-1", "failed", failed); !strings.Contains(e.Reason, "its order cannot be read") {
				t.Errorf("reason %q", e.Reason)
			}
			if err := p.Stop(t.Context(), "engine-1"); err != nil {
				t.Fatal(err)
			}
			noneLeft(t, dir, "engine-1")
			if all, err := p.List(t.Context()); len(all) != 0 || err != nil {
				t.Errorf("left: %+v, %v", all, err)
			}
		})
	}
}

// A record that cannot be read does not have a running engine started again, or waited for.
func TestRecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	p := open(t, sleeping(dir, "ours"), "ours")
	startFirst(t, p)
	write(t, filepath.Join(p.dir, "engine-1"), recordFile, `{"started_at": "20`)
	await(t, p, "engine-1", "running still", runs)
	if n := len(engines(t, dir, "ours", "engine-1")); n != 1 {
		t.Errorf("%d engines run", n)
	}
	if err := p.Stop(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, dir, "engine-1")
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, dir, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, file)); err != nil {
		t.Fatal(err)
	}
}
