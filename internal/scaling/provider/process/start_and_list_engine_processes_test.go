package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/kit/filelock"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/contract"
)

// TestMain lets the test binary play the keeper, and a worker that starts an engine and may be killed meanwhile.
func TestMain(m *testing.M) {
	switch args := os.Args[1:]; {
	case len(args) == 4 && args[0] == KeeperArgs[0] && args[1] == KeeperArgs[1]:
		if err := Keep(args[2], args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(args) == 4 && args[0] == "start":
		if err := startAsWorker(args[1], args[2], args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startAsWorker(dir, deployment, id string) error {
	p, err := New(sleeping(dir, deployment), deployment)
	if err != nil {
		return err
	}
	return p.Start(context.Background(), rollout.EngineID(id))
}

// sleeping are engines that do nothing, and say whose they are in their environment.
func sleeping(dir, deployment string) Config {
	return Config{
		Command:  `sh -c 'echo "engine {id} on {port}"; exec sleep 600'`,
		Env:      []string{"TEST_ENGINE=" + dir + "/" + deployment + "/{id}"},
		StateDir: dir, Grace: rollout.Duration(5 * time.Second),
		Ports: "18000-18999",
	}
}

// engines are the processes that run as an engine's command, whoever knows them: the most of three looks, for a process
// shows no environment for a moment while sh becomes sleep.
func engines(t testing.TB, dir, deployment string, id rollout.EngineID) (most []int) {
	t.Helper()
	for range 3 {
		pids := withVariable(t, fmt.Sprintf("TEST_ENGINE=%s/%s/%s", dir, deployment, id))
		if len(pids) > len(most) {
			most = pids
		}
		time.Sleep(5 * time.Millisecond)
	}
	return most
}

func withVariable(t testing.TB, assignment string) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("processes are counted by their environment, which is read from /proc:", err)
	}
	var pids []int
	for _, e := range entries {
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+assignment+"\x00")) {
			pid, _ := strconv.Atoi(e.Name())
			pids = append(pids, pid)
		}
	}
	return pids
}

// cleanUp kills whatever a test has left.
func cleanUp(t testing.TB, dir string) {
	t.Cleanup(func() {
		orders, _ := filepath.Glob(filepath.Join(dir, "*", "*", orderFile))
		for _, path := range orders {
			if o := readOrder(filepath.Dir(path)); o.bad == nil {
				killMarked(o.Nonce, process{})
			}
		}
	})
}

func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(t *testing.T) contract.Subject {
		dir := t.TempDir()
		cleanUp(t, dir)
		var gpus []string
		return contract.Subject{
			Open: func(t testing.TB, deployment string) provider.Provider {
				cfg := sleeping(dir, deployment)
				cfg.GPUs = gpus
				return open(t, cfg, deployment)
			},
			Running: func(t testing.TB, deployment string, id rollout.EngineID) int {
				return len(engines(t, dir, deployment, id))
			},
			Fail: func(t testing.TB, deployment string, id rollout.EngineID) {
				for _, pid := range engines(t, dir, deployment, id) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			},
			Full: func(t testing.TB) func() {
				gpus = []string{"0"}
				other := sleeping(dir, "full")
				other.GPUs = gpus
				p := open(t, other, "full")
				if err := p.Start(t.Context(), "other"); err != nil {
					t.Fatal(err)
				}
				return func() {
					if err := p.Stop(t.Context(), "other"); err != nil {
						t.Fatal(err)
					}
				}
			},
			Hang: func(t testing.TB) func() {
				unlock, err := filelock.Lock(t.Context(), filepath.Join(dir, "lock"))
				if err != nil {
					t.Fatal(err)
				}
				return unlock
			},
		}
	})
}

func open(t testing.TB, cfg Config, deployment string) *Provider {
	t.Helper()
	p, err := New(cfg, deployment)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// await waits until an engine is listed as ok says.
func await(
	t testing.TB, p *Provider, id rollout.EngineID, what string, ok func(provider.Instance) bool,
) provider.Instance {
	t.Helper()
	var last []provider.Instance
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		all, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.ID == id && ok(e) {
				return e
			}
		}
		last = all
		time.Sleep(10 * time.Millisecond) // other processes have no clock of ours
	}
	t.Fatalf("engine %s was not %s: %+v", id, what, last)
	return provider.Instance{}
}

func failed(e provider.Instance) bool { return e.State == enginestate.EngineFailed }

// A worker is killed at every moment of a start. Whoever comes after it finds one engine, or none that a second order
// makes one.
func TestWorkersKilledInTheMiddleOfAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cleanUp(t, dir)
	p := open(t, sleeping(dir, "ours"), "ours")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := exec.Command(self, "start", dir, "ours", "first").Run(); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(began) // of a start
	const times = 50
	for i := range times {
		id := rollout.EngineID(fmt.Sprintf("engine-%d", i))
		worker := exec.Command(self, "start", dir, "ours", string(id))
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(whole * time.Duration(i) / times) // the moment is what is varied
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if err := p.Start(t.Context(), id); err != nil { // what a retry does
			t.Fatal(err)
		}
		await(t, p, id, "running", func(e provider.Instance) bool { return e.State == enginestate.EngineRunning })
		got := engines(t, dir, "ours", id)
		// A process shows no environment while sh becomes sleep.
		for deadline := time.Now().Add(time.Minute); len(got) != 1 && time.Now().Before(deadline); {
			got = engines(t, dir, "ours", id)
		}
		if len(got) != 1 {
			t.Fatalf("killed after %s of %s: %d engines", whole*time.Duration(i)/times, whole, len(got))
		}
		if err := p.Stop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := engines(t, dir, "ours", id); len(got) != 0 {
			t.Fatalf("stopped, and %d processes are left", len(got))
		}
	}
	if err := p.Stop(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if left := keepers(t, dir); len(left) != 0 {
		t.Errorf("keepers left: %v", left)
	}
}

// keepers are the processes that keep an order below a folder.
func keepers(t testing.TB, dir string) []string {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, path := range lines {
		text, _ := os.ReadFile(path)
		if words := strings.Split(string(text), "\x00"); len(words) > 3 && words[1] == KeeperArgs[0] &&
			words[2] == KeeperArgs[1] && strings.HasPrefix(words[3], dir) {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// What an engine says, and how it ended, is its reason.
func TestEnginesThatEndAtOnceSayWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, command, want string }{
		{"status and words", `sh -c 'echo "CUDA out of memory: {port}"; exit 3'`, "exit status 3 after"},
		{"the words", `sh -c 'echo "CUDA out of memory: {port}"; exit 3'`, "CUDA out of memory: 18"},
		{"no words", `sh -c 'exit 0' {port}`, "ended with status 0"},
		{"a signal", `sh -c 'kill -9 $$' {port}`, "killed"},
		{"not a program", `/dev/null {port}`, "permission denied"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg := sleeping(dir, "ours")
			cfg.Command = tt.command
			p := open(t, cfg, "ours")
			if err := p.Start(t.Context(), "engine-1"); err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Fatal(err)
				}
				return
			}
			if e := await(t, p, "engine-1", "failed", failed); !strings.Contains(e.Reason, tt.want) {
				t.Errorf("reason %q, want %q", e.Reason, tt.want)
			}
		})
	}
}
