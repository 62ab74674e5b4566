package process

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
)

func runs(e provider.Instance) bool { return e.State == enginestate.EngineRunning }

// startFirst starts engine-1, and waits until it runs.
func startFirst(t *testing.T, p *Provider) {
	t.Helper()
	if err := p.Start(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	await(t, p, "engine-1", "running", runs)
}

// noneLeft waits until no process of an engine is there.
func noneLeft(t *testing.T, dir string, id rollout.EngineID) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(engines(t, dir, "ours", id)) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("processes left of %s: %v", id, engines(t, dir, "ours", id))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// An engine that does not hear SIGTERM is killed after its grace, with children that left its process group.
func TestEnginesThatIgnoreTheEndAreKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	cfg := sleeping(dir, "ours")
	cfg.Command = `sh -c 'trap "" TERM; setsid sleep 600 & sleep 600 & wait; sleep 600' engine-{port}`
	cfg.Grace = rollout.Duration(200 * time.Millisecond)
	p := open(t, cfg, "ours")
	startFirst(t, p)
	if err := p.Stop(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	noneLeft(t, dir, "engine-1")
}

// An engine whose keeper is killed ends with it, and is listed as failed.
func TestEnginesEndWithTheirKeeper(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	p := open(t, sleeping(dir, "ours"), "ours")
	startFirst(t, p)
	pid, err := holder(filepath.Join(p.dir, "engine-1", keeperLock))
	if err != nil || pid <= 0 {
		t.Fatal(pid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := await(t, p, "engine-1", "failed", failed); !strings.Contains(e.Reason, "keeper was killed") {
		t.Errorf("reason %q", e.Reason)
	}
	noneLeft(t, dir, "engine-1")
}

// Engines end when nobody holds their lifeline.
func TestEnginesEndWithTheirLifeline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	cfg := sleeping(dir, "ours")
	cfg.Lifeline = filepath.Join(dir, "lifeline")
	release, err := filelock.Lock(t.Context(), cfg.Lifeline)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, cfg, "ours")
	startFirst(t, p)
	release()
	await(t, p, "engine-1", "failed", failed)
	noneLeft(t, dir, "engine-1")
}

// Two deployments of a host never have one GPU; who waits is told who has it.
func TestGPUsBelongToTheHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	ours, theirs := sleeping(dir, "ours"), sleeping(dir, "theirs")
	ours.GPUs, theirs.GPUs = []string{"0,1", "2"}, []string{"1,2"}
	p, other := open(t, ours, "ours"), open(t, theirs, "theirs")
	if err := p.Start(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context(), "engine-2"); err != nil {
		t.Fatal(err)
	}
	await(t, other, "engine-2", "pending, with who has its GPUs", func(e provider.Instance) bool {
		return e.State == enginestate.EngineOrdered &&
			strings.Contains(e.Reason, "no GPUs are free on this host (1,2: engine-1 of deployment ours)")
	})
	if err := p.Stop(t.Context(), "engine-1"); err != nil {
		t.Fatal(err)
	}
	await(t, other, "engine-2", "running", runs)
	if err := other.Stop(t.Context(), "engine-2"); err != nil {
		t.Fatal(err)
	}
}

// A log keeps its bound, and its end.
func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	l := openBoundedLog(path, 1000)
	for range 100 {
		if n, err := l.Write([]byte(strings.Repeat("x", 99) + "\n")); n != 100 || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = l.Write([]byte("the end"))
	l.close()
	for _, file := range []string{path, path + ".1"} {
		if info, err := os.Stat(file); err != nil || info.Size() > 1000 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if !strings.HasSuffix(string(l.tail()), "the end") {
		t.Errorf("its end: %q", l.tail())
	}
}
