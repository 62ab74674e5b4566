package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/process/temporalcli"
	engineprocess "github.com/millrace/millrace/internal/scaling/provider/process"
	"github.com/millrace/millrace/internal/store/spool/spooltest"
)

// startsEngine has the test binary be a worker that starts an engine and ends; a folder and a deployment follow.
const startsEngine = "test-engine"

// TestMain lets the test binary be millrace itself, so that the tests run real processes of the code under test. What
// keeps engines is millrace, too: its environment has nothing that was Millrace's.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	keeps := len(args) > 2 && slices.Equal(args[:2], engineprocess.KeeperArgs)
	if len(args) == 3 && args[0] == startsEngine {
		if _, err := startTestEngine(context.Background(), args[1], args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(args) == 1 && args[0] == playsGame {
		if err := playTestGame(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if keeps || os.Getenv("MILLRACE_TEST_AS_BINARY") != "" {
		ctx, stop := untilSignal(context.Background(), os.Args[1:])
		code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(spooltest.Main(m))
}

// process is a millrace process of a test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	done   chan struct{}
	err    error

	mu    sync.Mutex
	lines []string      // of stderr
	more  chan struct{} // closed and replaced at each line
}

func millrace(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{}), more: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "MILLRACE_TEST_AS_BINARY=1")
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.read(stderr)
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-p.done
		if t.Failed() {
			t.Logf("millrace %s\n%s\n%s", strings.Join(args, " "), p.said(), p.stdout.String())
		}
	})
	return p
}

func (p *process) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// said is what has come of stderr so far; more may follow.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// awaitFor bounds the wait for one line, so that a process that hangs is ended and what it said is shown.
const awaitFor = 3 * time.Minute

// await waits for a line of stderr, from the n-th on, that matches, and returns its submatches and the next n.
func (p *process) await(pattern string, n int) ([]string, int) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	patience := time.After(awaitFor)
	for {
		p.mu.Lock()
		for ; n < len(p.lines); n++ {
			if m := re.FindStringSubmatch(p.lines[n]); m != nil {
				p.mu.Unlock()
				return m, n + 1
			}
		}
		more := p.more
		p.mu.Unlock()
		select {
		case <-more:
		case <-patience:
			p.t.Fatalf("millrace did not say %q within %s", pattern, awaitFor)
		case <-p.done:
			p.t.Fatalf("millrace ended (%v) before it said %q", p.err, pattern)
		}
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(awaitFor):
		p.t.Fatalf("millrace did not end within %s", awaitFor)
	}
	return p.cmd.ProcessState.ExitCode()
}

func requireTemporal(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server and lasts many seconds; run without -short")
	}
	path, err := temporalcli.Find(os.Getenv, "../..")
	if err != nil {
		t.Skip("needs the Temporal CLI:", err)
	}
	t.Setenv("MILLRACE_TEMPORAL", path)
}

// trainedStep is one line of the trainer's journal.
type trainedStep struct {
	Step         int64    `json:"step"`
	Generation   int64    `json:"generation"`
	Version      int64    `json:"policy_version"`
	Groups       []int64  `json:"groups"`
	Trajectories []string `json:"trajectories"`
}

func readJournal(t *testing.T, path string) []trainedStep {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []trainedStep
	for line := range strings.Lines(string(b)) {
		var s trainedStep
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	return steps
}

const quickSpec = `
name: quick
model: Qwen/Qwen2.5-7B-Instruct
steps: 6
environment: {kind: diplomacy, horizon_years: 1, train: all}
group: {samples: 2, min_samples: 2}
buffer: {depth: 2, groups_per_step: 2, max_staleness: 4, on_stale: drop}
sampling: {temperature: 0.8, max_tokens: 120}
adapters: {rank: 8, path_prefix: /adapters}
timeouts: {completion: 60s, episode: 15m, heartbeat: 10s}
demo: {engines: 2, speed: 40, train: 40s, publish: 2s}
`

// script makes a program of a script. Nobody forks while its file is written: the child would have it open for writing
// until it is another program, and a file that somebody writes cannot be executed.
func script(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeSpec(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The whole service, with real processes: a run of real games ends by itself with exit code 0, although its worker and
// its trainer are killed in the middle; every step has exactly its groups and no trajectory is trained on twice.
func TestRunSurvivesTheDeathOfWorkerAndTrainer(t *testing.T) {
	requireTemporal(t)
	journal := filepath.Join(t.TempDir(), "trained.jsonl")
	p := millrace(t, "dev", "--listen", "127.0.0.1:0", "--spec", writeSpec(t, quickSpec), "--exit", "--journal", journal)

	pid, _ := p.await(`worker running, process (\d+)`, 0)
	_, n := p.await(`step +1`, 0)
	kill(t, pid[1])
	_, n = p.await(`worker ended \(signal: killed\)`, n)
	p.await(`step +3`, n)
	trainer, _ := p.await(`trainer running, process (\d+)`, 0)
	kill(t, trainer[1])

	if code := p.exit(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	checkJournal(t, readJournal(t, journal), 6, 2, 2*2*7)
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// checkJournal checks what a trainer says that it was fed. A step that a restart made it do again has the same batch.
func checkJournal(t *testing.T, lines []trainedStep, steps, groups, trajectories int) {
	t.Helper()
	byStep := map[int64]trainedStep{}
	owner := map[string]int64{}
	for _, line := range lines {
		if before, again := byStep[line.Step]; again {
			if strings.Join(before.Trajectories, " ") != strings.Join(line.Trajectories, " ") {
				t.Errorf("step %d was fed two different batches", line.Step)
			}
			continue
		}
		byStep[line.Step] = line
		if len(line.Groups) != groups || len(line.Trajectories) != trajectories {
			t.Errorf("step %d: %d groups and %d trajectories, want %d and %d", line.Step, len(line.Groups),
				len(line.Trajectories), groups, trajectories)
		}
		for _, id := range line.Trajectories {
			if other, taken := owner[id]; taken {
				t.Errorf("trajectory %s is in steps %d and %d", id, other, line.Step)
			}
			owner[id] = line.Step
		}
	}
	for step := range int64(steps) {
		if _, ok := byStep[step]; !ok {
			t.Errorf("step %d was never trained", step)
		}
	}
}

// Ctrl-C at any moment ends every child process.
func TestInterruptLeavesNothingBehind(t *testing.T) {
	requireTemporal(t)
	for _, at := range []string{`starting the Temporal dev server`, `worker running`, `step +1`} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := millrace(t, "dev", "--listen", "127.0.0.1:0", "--spec", writeSpec(t, quickSpec), "--exit")
			p.await(at, 0)
			if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if code := p.exit(); code != 130 {
				t.Errorf("exit code %d, want 130", code)
			}
			if left := descendants(t, p.cmd.Process.Pid); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// descendants lists the processes whose environment names the test's process as theirs.
func descendants(t *testing.T, parent int) []string {
	t.Helper()
	marker := "MILLRACE_DEV=" + strconv.Itoa(parent)
	var left []string
	entries, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(marker+"\x00")) {
			left = append(left, filepath.Base(filepath.Dir(path)))
		}
	}
	return left
}

func TestBadFlagsAreUsageErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, says string }{
		{"dev --exit", "--spec"},
		{"dev --data-dir /tmp/x", "--redis"},
		{"dev --learn --no-trainer", "--learn needs"},
		{"dev --engine http://a:1 --engines 2", "exclude"},
		{"dev --engine vllm:8000", "want http://host:port"},
		{"dev --sped 3", "--help"},
		{"config check /dev/zero", "larger than 64 MiB"},
		{"run start -f /dev/zero", "larger than"},
		{"no-such-command", "unknown command"},
		{"run play demo", "what plays?"},
		{"run play demo --call http://a -- ls", "what plays?"},
		{"run play demo -- no-such-program", "not found"},
		{"run play demo --games 0 -- ls", "--games is at least 1"},
		{"run play demo --call http://user:secret@a", "--token-env"},
		{"run play demo --call http://a --token-env NO_SUCH", "has no NO_SUCH"},
		{"engine simulate --max-num-seqs -1", "must be positive"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			code := run(ctx, strings.Fields(tt.args), strings.NewReader(""), &stdout, &stderr)
			if code != 2 || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("exit code %d, says %q; want 2 and %q", code, stderr.String(), tt.says)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %s", stdout.String())
			}
		})
	}
}
