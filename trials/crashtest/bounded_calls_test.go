package crashtest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/trials/crashtest"
	"github.com/millrace/millrace/trials/stack"
)

// Every node of Redis is stopped and answers nothing, though it takes connections: /readyz, a claim and the command
// line answer all the same, each within its own bound, and the service goes on when Redis does.
func TestCallsAreBoundedWhileRedisIsStopped(t *testing.T) {
	redisFaults(t)
	var cfg crashtest.Config
	programs(t, &cfg)
	for _, layout := range crashtest.Layouts() {
		t.Run(string(layout), func(t *testing.T) {
			s := startLayout(t, cfg, layout)
			spec := "../../config/examples/tictactoe.yaml"
			if out, err := exec.CommandContext(t.Context(), cfg.Millrace, "run", "start", "-f", spec, "--server",
				"http://"+s.Server).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var names []string
			for i := range s.RedisNodes {
				names = append(names, strings.TrimSuffix(fmt.Sprintf("redis-%d", i), "-0"))
			}
			signal := func(sig syscall.Signal) {
				for _, name := range names {
					if err := syscall.Kill(s.PID(name), sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			signal(syscall.SIGSTOP)
			for _, call := range boundedCalls(cfg.Millrace, "http://"+s.Server) {
				took, answer := call.make(t)
				t.Logf("%s: %s: %s", call.name, took.Round(10*time.Millisecond), answer)
				if took > 2*call.bound {
					t.Errorf("%s took %s, the bound is %s", call.name, took, call.bound)
				}
			}
			signal(syscall.SIGCONT)
			err := stack.Await(t.Context(), time.Minute, func(ctx context.Context) error {
				resp, err := http.Get("http://" + s.Server + "/readyz")
				if err != nil {
					return err
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("readyz answers %d", resp.StatusCode)
				}
				return nil
			})
			if err != nil {
				t.Errorf("when Redis goes on: %v", err)
			}
		})
	}
}

type boundedCall struct {
	name  string
	bound time.Duration
	make  func(t *testing.T) (time.Duration, string)
}

func boundedCalls(millrace, server string) []boundedCall {
	get := func(method, path string) func(t *testing.T) (time.Duration, string) {
		return func(t *testing.T) (time.Duration, string) {
			t.Helper()
			began := time.Now()
			req, err := http.NewRequestWithContext(t.Context(), method, server+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Timeout: time.Minute}
			resp, err := client.Do(req)
			if err != nil {
				return time.Since(began), err.Error()
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return time.Since(began), fmt.Sprintf("%d %.160s", resp.StatusCode, body)
		}
	}
	run := func(args ...string) func(t *testing.T) (time.Duration, string) {
		return func(t *testing.T) (time.Duration, string) {
			t.Helper()
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			out, _ := exec.CommandContext(ctx, millrace, slices.Concat(args, []string{"--server", server})...).CombinedOutput()
			return time.Since(began), fmt.Sprintf("%.160s", out)
		}
	}
	return []boundedCall{
		{"readyz", 3 * time.Second, get(http.MethodGet, "/readyz")},
		{"a claim that waits 2 s", 17 * time.Second, get(http.MethodPost, "/v1/runs/tictactoe/steps/0/claim?wait=2s")},
		{"the same again", 17 * time.Second, get(http.MethodPost, "/v1/runs/tictactoe/steps/0/claim?wait=2s")},
		{"run show", 15 * time.Second, run("run", "show", "tictactoe")},
		{"status", 15 * time.Second, run("status")},
	}
}

// startLayout starts the service where Redis is laid out so.
func startLayout(t *testing.T, cfg crashtest.Config, layout crashtest.Layout) *stack.Stack {
	t.Helper()
	of := stack.Config{Programs: cfg.Programs, Dir: t.TempDir(),
		Service: "retain_steps: 9\n", Workers: 1, Engines: 1, Replica: layout != crashtest.Single, Log: t.Output()}
	if layout == crashtest.Cluster {
		of.Masters = 3
	}
	s, err := stack.Start(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}
