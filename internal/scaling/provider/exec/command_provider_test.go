package exec

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/scaling/provider"
	"github.com/millrace/millrace/internal/scaling/provider/contract"
)

// TestMain lets the test binary play an operator's command, for engines that are processes which sleep.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_COMMANDS"); dir != "" {
		if err := command(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// command is no more idempotent than a batch system's: what is started twice runs twice.
func command(dir string) error {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	if r.Call != os.Getenv("MILLRACE_CALL") || string(r.ID) != os.Getenv("MILLRACE_ENGINE_ID") ||
		r.Deployment != os.Getenv("MILLRACE_DEPLOYMENT") || r.Version != protocol {
		return fmt.Errorf("told %+v and %q", r, os.Environ())
	}
	for { // what the test has hang hangs
		if _, err := os.Stat(filepath.Join(dir, "hang")); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	switch r.Call {
	case "start":
		return startJob(dir, r)
	case "stop":
		return stopJobs(dir, r)
	}
	return listJobs(dir, r)
}

// A job is a file deployment,id,PID,since.
func startJob(dir string, r request) error {
	sleep := exec.Command("sleep", "120")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := sleep.Start(); err != nil {
		return err
	}
	job := fmt.Sprintf("%s,%s,%d,%d", r.Deployment, r.ID, sleep.Process.Pid, time.Now().UnixMilli())
	return os.WriteFile(filepath.Join(dir, job), nil, 0o600)
}

func jobs(dir, deployment string) (files [][]string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if fields := strings.Split(e.Name(), ","); len(fields) == 4 && (deployment == "" || fields[0] == deployment) {
			files = append(files, fields)
		}
	}
	return files
}

func alive(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func stopJobs(dir string, r request) error {
	for _, job := range jobs(dir, r.Deployment) {
		if job[1] != string(r.ID) {
			continue
		}
		if pid, _ := strconv.Atoi(job[2]); alive(job[2]) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = os.Remove(filepath.Join(dir, strings.Join(job, ",")))
	}
	return nil
}

// listJobs lists those of all deployments, and says whose they are.
func listJobs(dir string, _ request) error {
	var all []listed
	for i, job := range jobs(dir, "") {
		ms, _ := strconv.ParseInt(job[3], 10, 64)
		e := listed{provider.Instance{ID: rollout.EngineID(job[1]), URL: fmt.Sprintf("http://10.0.0.%d:8000", i),
			State: enginestate.EngineRunning, Since: time.UnixMilli(ms)}, job[0]}
		pid := job[2]
		e.URL = "http://10.0.0.1:" + pid
		if !alive(pid) {
			e.State, e.Reason = enginestate.EngineFailed, "node failure"
		}
		all = append(all, e)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"engines": append([]listed{}, all...)})
}

func commands(t testing.TB, dir string) Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	quoted := "'" + self + "'"
	return Config{Start: quoted, Stop: quoted, List: quoted, Env: []string{"TEST_COMMANDS=" + dir},
		Timeout: rollout.Duration(time.Minute)}
}

func open(t testing.TB, cfg Config, deployment string) *Provider {
	t.Helper()
	p, err := New(cfg, deployment)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestContract(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("whether a process lives is read from /proc:", err)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Run("suite", func(t *testing.T) {
		contract.Run(t, func(t *testing.T) contract.Subject {
			dir := t.TempDir()
			t.Cleanup(func() {
				for _, job := range jobs(dir, "") {
					if pid, _ := strconv.Atoi(job[2]); alive(job[2]) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			})
			name := func(deployment string) string { return filepath.Base(filepath.Dir(dir)) + deployment }
			live := func(deployment string, id rollout.EngineID) (pids []int) {
				for _, job := range jobs(dir, deploymentName(name(deployment))) {
					if job[1] == string(id) && alive(job[2]) {
						pid, _ := strconv.Atoi(job[2])
						pids = append(pids, pid)
					}
				}
				return pids
			}
			return contract.Subject{
				Open: func(t testing.TB, deployment string) provider.Provider {
					return open(t, commands(t, dir), name(deployment))
				},
				Running: func(_ testing.TB, deployment string, id rollout.EngineID) int {
					return len(live(deployment, id))
				},
				Fail: func(_ testing.TB, deployment string, id rollout.EngineID) {
					for _, pid := range live(deployment, id) {
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				},
				Hang: func(t testing.TB) func() {
					file := filepath.Join(dir, "hang")
					if err := os.WriteFile(file, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					return func() { _ = os.Remove(file) }
				},
			}
		})
	})
}

// shell makes every command a script.
func shell(script string) Config {
	command := "sh -c '" + script + "'"
	return Config{Start: command, Stop: command, List: command, Timeout: rollout.Duration(time.Minute)}
}

func TestWhatListsMaySay(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for _, tt := range []struct{ name, says, want string }{
		{"a list alone", `[{"id": "b", "state": "ordered", "reason": "Priority"}, {"id": "a", "state": "stopping"}]`, "a b"},
		{"none", `{"engines": []}`, ""},
		{"others' engines", `{"engines": [{"id": "a", "state": "ordered", "deployment": "theirs"}]}`, ""},
		{"nothing", ``, "the list command"},
		{"no list", `{"jobs": []}`, "no engines in it"},
		{"null", `{"engines": null}`, "no engines in it"},
		{"words", `sbatch: error`, "the list command"},
		{"no state", `[{"id": "a"}]`, `a has the state ""`},
		{"another state", `[{"id": "a", "state": "RUNNING"}]`, "want ordered, running, stopping or failed"},
		{"running without an address", `[{"id": "a", "state": "running"}]`, "list it as ordered"},
		{"an address without a scheme", `[{"id": "a", "state": "running", "url": "gpu7:8000"}]`, "want http://host:port"},
		{"twice", `[{"id": "a", "state": "ordered"}, {"id": "a", "state": "failed"}]`, "twice"},
		{"a wrong id", `[{"id": "../a", "state": "ordered"}]`, "engine id"},
	} {
		all, err := open(t, shell(`cat >/dev/null; printf "%s" "$SAYS"`).with("SAYS="+tt.says), "d").List(t.Context())
		var ids []string
		for _, e := range all {
			ids = append(ids, string(e.ID))
		}
		if got := strings.Join(ids, " "); err == nil && got != tt.want ||
			err != nil && !strings.Contains(err.Error(), tt.want) || err != nil && tt.want == "" {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

func (c Config) with(env ...string) Config {
	c.Env = append(c.Env, env...)
	return c
}

func TestCommandsThatMisbehave(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("MILLRACE_TOKENS", "secret")
	for _, tt := range []struct{ name, script, want string }{
		{"fails", `echo "QuotaExceeded: 8 A100" >&2; exit 7`, "exit status 7; the last that it said:\nQuotaExceeded: 8 A100"},
		{"tells a secret", `echo "+ curl -H $HF_TOKEN" >&2; exit 7`, "+ curl -H [HF_TOKEN]"},
		{"lists a secret", `echo "$HF_TOKEN"`, "it began with \"[HF_TOKEN]"},
		{"warns before its list", `echo "a new version is there"; echo "[]"`, "it began with \"a new version"},
		{"is no command", `exec /no/such/program`, "exit status 127"},
		{"writes without end", `yes`, "MiB"},
		{"hangs", `sleep 60`, "was killed after"},
		{"hangs with children", `sleep 60 & sleep 60 & wait`, "was killed after"},
		{"sees no secret", `test -z "$MILLRACE_TOKENS" && echo "[]"`, ""},
		{"reads nothing", `exec <&-; echo "[]"`, ""},
		{"leaves something in the background", `sleep 5 & echo "[]"`, ""},
	} {
		cfg := shell(tt.script).with("HF_TOKEN=hf_abcdef")
		if strings.HasPrefix(tt.name, "hangs") || strings.HasPrefix(tt.name, "writes") {
			cfg.Timeout = rollout.Duration(500 * time.Millisecond)
		}
		_, err := open(t, cfg, "d").List(t.Context())
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "MiB" && err != nil: // killed, or found to say too much: whichever is first
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, shell(`echo "[]"`), "d").List(over); err == nil {
		t.Error("a context that is over: no error")
	}
}

func TestDeploymentNamesAreDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, text := range []string{"a", "a-", "a/b", "a b", "", "-", strings.Repeat("x", 100), strings.Repeat("x", 101)} {
		name := deploymentName(text)
		if len(name) > 63 || name == "" || strings.ContainsAny(name, "/ ") {
			t.Errorf("%q becomes %q", text, name)
		}
		if other, again := seen[name]; again {
			t.Errorf("%q and %q are both %q", text, other, name)
		}
		seen[name] = text
	}
}
