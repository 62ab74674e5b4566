package crashtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/trials/crashtest"
	"github.com/millrace/millrace/trials/stack"
)

// A run is begun by an earlier version (its binary is MILLRACE_OLD; `make test-rolling` builds it) and rolled over to
// this one and half of the way back, as docs/upgrades.md says: the server first, then workers, one at a time; and a
// worker again. Redis is restarted while both versions are there. Steps are completed at every stage, no step is fed
// two batches, and no trajectory is trained on twice.
func TestRollingOverFromAnEarlierVersionAndBack(t *testing.T) {
	old := os.Getenv("MILLRACE_OLD")
	if old == "" {
		t.Skip("needs the binary of an earlier version: make test-rolling builds one")
	}
	var cfg crashtest.Config
	programs(t, &cfg)
	r := startRolling(t, cfg, old)
	r.goesOn("the old version alone")
	r.turn("server", cfg.Millrace)
	r.goesOn("new server, old workers")
	r.turn("worker-0", cfg.Millrace)
	r.goesOn("one new worker")
	r.kill("redis", syscall.SIGKILL)
	r.goesOn("one new worker, after a restart of Redis")
	r.turn("worker-1", cfg.Millrace)
	r.goesOn("the new version alone")
	r.kill("redis", syscall.SIGKILL)
	r.goesOn("the new version alone, after a restart of Redis")
	r.turn("worker-0", old)
	r.goesOn("on the way back, one old worker")
	r.judge()
}

// rolling is the service, whose processes are of the version that is in use when they are started.
type rolling struct {
	*stack.Stack
	t       *testing.T
	dir     string
	lab     string
	journal string
}

// wrapper starts the binary that is named for the command.
const wrapper = `#!/bin/sh
which=%[1]s/version-$1
[ -f "$which" ] || which=%[1]s/version-server
exec "$(cat "$which")" "$@"
`

func startRolling(t *testing.T, cfg crashtest.Config, old string) *rolling {
	t.Helper()
	r := &rolling{t: t, dir: t.TempDir(), lab: cfg.Lab}
	r.journal = filepath.Join(r.dir, "journal.jsonl")
	r.use("server", old)
	r.use("worker", old)
	start := filepath.Join(r.dir, "millrace")
	if err := os.WriteFile(start, fmt.Appendf(nil, wrapper, r.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	r.Stack, err = stack.Start(t.Context(), stack.Config{
		Programs: stack.Programs{Millrace: start, Temporal: cfg.Temporal, Redis: cfg.Redis},
		Dir:      r.dir, Service: "retain_steps: 999\n", Workers: 2,
		Engines: 2, Log: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	r.begin()
	return r
}

// begin starts a run that is longer than the test, and its trainer.
func (r *rolling) begin() {
	r.t.Helper()
	adapters := filepath.Join(r.dir, "adapters")
	if err := os.Mkdir(adapters, 0o755); err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.dir, "run.yaml")
	err := os.WriteFile(file, fmt.Appendf(nil, `{name: rolling, model: Qwen/Qwen2.5-7B-Instruct, steps: 5000,
environment: {kind: tictactoe, opening_moves: 1}, group: {samples: 3}, buffer: {depth: 2, groups_per_step: 3},
sampling: {temperature: 1.0, max_tokens: 4}, adapters: {path_prefix: %s},
timeouts: {completion: 20s, episode: 2m, heartbeat: 2s}}
`, adapters), 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	start := filepath.Join(r.dir, "millrace")
	server := "http://" + r.Server
	out, err := exec.CommandContext(r.t.Context(), start, "run", "start", "-f", file, "--server", server).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %s", err, out)
	}
	err = r.Spawn("trainer", true, r.lab, "trainer", "rolling", "--server", server, "--adapters", adapters,
		"--journal", r.journal, "--train", "500ms")
	if err != nil {
		r.t.Fatal(err)
	}
}

// use has the next process of a command be of a version.
func (r *rolling) use(command, binary string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "version-"+command), []byte(binary), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// turn ends a process, which is started again as another version.
func (r *rolling) turn(name, binary string) {
	r.t.Helper()
	command, _, _ := strings.Cut(name, "-")
	r.use(command, binary)
	r.kill(name, syscall.SIGTERM)
}

func (r *rolling) kill(name string, sig syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.PID(name), sig); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
}

// goesOn waits until three more steps are trained.
func (r *rolling) goesOn(stage string) {
	r.t.Helper()
	const more = 3
	before, began := len(r.trained()), time.Now()
	err := stack.Await(r.t.Context(), 3*time.Minute, func(context.Context) error {
		if now := len(r.trained()); now < before+more {
			return fmt.Errorf("%d steps were trained", now-before)
		}
		return nil
	})
	if err != nil {
		r.t.Fatalf("%s: %v", stage, err)
	}
	r.t.Logf("%s: %d steps in %s", stage, more, time.Since(began).Round(100*time.Millisecond))
}

// line is what the trainer writes of a step.
type line struct {
	Step         int64    `json:"step"`
	Trajectories []string `json:"trajectories"`
}

func (r *rolling) trained() []line {
	r.t.Helper()
	text, err := os.ReadFile(r.journal)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var all []line
	for _, one := range bytes.Split(text, []byte("\n")) {
		var l line
		if json.Unmarshal(one, &l) == nil { // the last one may be half-written
			all = append(all, l)
		}
	}
	return all
}

// judge compares what the trainer was fed with what it may be fed.
func (r *rolling) judge() {
	r.t.Helper()
	steps, owner := map[int64][]string{}, map[string]int64{}
	for _, l := range r.trained() {
		if before, again := steps[l.Step]; again && !slices.Equal(before, l.Trajectories) {
			r.t.Errorf("step %d was fed two batches", l.Step)
		}
		steps[l.Step] = l.Trajectories
		for _, id := range l.Trajectories {
			if other, taken := owner[id]; taken && other != l.Step {
				r.t.Errorf("trajectory %s is in steps %d and %d", id, other, l.Step)
			}
			owner[id] = l.Step
		}
	}
	for k := range int64(len(steps)) {
		if steps[k] == nil {
			r.t.Errorf("step %d was not trained", k)
		}
	}
	r.t.Logf("%d steps, %d trajectories", len(steps), len(owner))
}
