package supervise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary play the child: it writes its pid to a file and waits to be ended.
func TestMain(m *testing.M) {
	if file := os.Getenv("SUPERVISE_CHILD"); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(3)
		}
		_, _ = f.WriteString(strconv.Itoa(os.Getpid()) + "\n")
		_ = f.Close()
		if os.Getenv("SUPERVISE_EXIT") != "" {
			os.Exit(0)
		}
		time.Sleep(time.Hour)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func startChild(t *testing.T, g *Group, name string, once bool) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "pids")
	env := []string{"SUPERVISE_CHILD=" + file}
	if once {
		env = append(env, "SUPERVISE_EXIT=1")
	}
	if err := g.Start(Process{Name: name, Path: os.Args[0], Env: env, Once: once}); err != nil {
		t.Fatal(err)
	}
	return file
}

// pids waits until n processes have reported.
func pids(t *testing.T, file string, n int) []int {
	t.Helper()
	for {
		b, _ := os.ReadFile(file)
		if lines := strings.Fields(string(b)); len(lines) >= n {
			var out []int
			for _, l := range lines {
				pid, err := strconv.Atoi(l)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, pid)
			}
			return out
		}
		if t.Context().Err() != nil {
			t.Fatal("no child reported")
		}
		time.Sleep(5 * time.Millisecond) // other processes have no clock of ours
	}
}

func TestKilledChildIsStartedAgain(t *testing.T) {
	t.Parallel()
	events := make(chan Event, 10)
	g := NewGroup(t.TempDir(), func(e Event) { events <- e })
	defer g.Stop(nil)
	file := startChild(t, g, "worker", false)
	first := pids(t, file, 1)[0]
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Name != "worker" || !strings.Contains(e.Text, "killed") {
		t.Errorf("event %+v does not say that the worker was killed", e)
	}
	second := pids(t, file, 2)[1]
	if second == first {
		t.Error("the same process again")
	}
	if e := <-events; e.Text != fmt.Sprintf("runs again, process %d", second) {
		t.Errorf("event %+v does not name process %d", e, second)
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	g := NewGroup(t.TempDir(), func(Event) {})
	a, b := startChild(t, g, "a", false), startChild(t, g, "b", false)
	running := append(pids(t, a, 1), pids(t, b, 1)...)
	now := make(chan struct{})
	close(now)
	g.Stop(now)
	for _, pid := range running {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

func TestOnceEndsWithItsCleanExit(t *testing.T) {
	t.Parallel()
	g := NewGroup(t.TempDir(), func(e Event) { t.Errorf("unexpected %+v", e) })
	defer g.Stop(nil)
	startChild(t, g, "job", true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Wait(ctx, "job"); err != nil {
		t.Error(err)
	}
}

func TestMissingProgramIsAnError(t *testing.T) {
	t.Parallel()
	g := NewGroup(t.TempDir(), func(Event) {})
	if err := g.Start(Process{Name: "ghost", Path: "/does/not/exist"}); err == nil {
		t.Error("no error")
	}
}

// A child that is ended stays ended, the others live, and one of its name may be started again.
func TestEndStopsOneForGood(t *testing.T) {
	t.Parallel()
	g := NewGroup(t.TempDir(), func(e Event) { t.Errorf("unexpected %+v", e) })
	defer g.Stop(nil)
	a, b := startChild(t, g, "a", false), startChild(t, g, "b", false)
	ended, other := pids(t, a, 1)[0], pids(t, b, 1)[0]
	g.End("a")
	if err := syscall.Kill(ended, 0); err == nil {
		t.Errorf("process %d is still there", ended)
	}
	if err := syscall.Kill(other, 0); err != nil || g.PID("a") != 0 {
		t.Errorf("the other one: %v; the ended one has process %d", err, g.PID("a"))
	}
	if again := pids(t, startChild(t, g, "a", false), 1)[0]; g.PID("a") != again {
		t.Errorf("process %d, want the new one, %d", g.PID("a"), again)
	}
}
