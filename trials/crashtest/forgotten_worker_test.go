package crashtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/millrace/millrace/trials/crashtest"
	"github.com/millrace/millrace/trials/stack"
)

// A worker dies, and Redis comes back as it was before that worker had announced itself. Its games are released by who
// has seen it, or by who finds them with a worker that nobody has heard of: none of them waits until Temporal misses
// its heartbeats.
func TestGamesOfAWorkerThatRedisForgotGoOn(t *testing.T) {
	redisFaults(t)
	var cfg crashtest.Config
	programs(t, &cfg)
	for _, tt := range []struct {
		name string
		die  []string // beside the worker and Redis
	}{
		{"another worker has seen it", nil},
		{"nobody who lives has seen it", []string{"worker-0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := startForgetful(t, cfg)
			own := s.awaitGames(func(string) bool { return true })
			before := s.rememberRedis()
			late := s.startLateWorker(cfg)
			theirs := func(worker string) bool { return !slices.Contains(slices.Collect(maps.Values(own)), worker) }
			games := s.awaitGames(theirs)
			s.kill(late)
			for _, name := range tt.die {
				s.kill(s.PID(name))
			}
			s.redisComesBack(before)
			s.judge(games)
		})
	}
}

// forgetful is the service with one worker, and a run whose games are long and too many for it.
type forgetful struct {
	*stack.Stack
	t        *testing.T
	dir      string
	temporal client.Client
}

func startForgetful(t *testing.T, cfg crashtest.Config) *forgetful {
	t.Helper()
	s := &forgetful{t: t, dir: t.TempDir()}
	var err error
	s.Stack, err = stack.Start(t.Context(), stack.Config{
		Programs: cfg.Programs, Dir: s.dir, Service: "worker: {games: 16}\n", Workers: 1, Engines: 2,
		EngineArgs: []string{"--speed", "0.02"}, Log: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.temporal, err = client.NewLazyClient(client.Options{HostPort: s.Temporal}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.temporal.Close)
	file := filepath.Join(s.dir, "run.yaml")
	err = os.WriteFile(file, fmt.Appendf(nil, `{name: forgotten, model: Qwen/Qwen2.5-7B-Instruct, steps: 50,
environment: {kind: tictactoe, opening_moves: 1}, group: {samples: 4}, buffer: {depth: 4, groups_per_step: 4},
sampling: {temperature: 1.0, max_tokens: 4}, adapters: {path_prefix: %s},
timeouts: {completion: 2m, episode: 20m}}
`, filepath.Join(s.dir, "adapters")), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	start := exec.CommandContext(t.Context(), cfg.Millrace, "run", "start", "-f", file, "--server", "http://"+s.Server)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// game is an attempt's activity: a group's workflow, and the number of the activity in it.
type game struct{ group, activity string }

// playing is the games of all groups that some worker plays or has played, as Temporal knows them.
func (s *forgetful) playing(ctx context.Context) (map[game]*workflow.PendingActivityInfo, error) {
	all, err := s.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: "default", Query: "WorkflowType = 'Group' AND ExecutionStatus = 'Running'"})
	if err != nil {
		return nil, err
	}
	games := map[game]*workflow.PendingActivityInfo{}
	for _, group := range all.Executions {
		id := group.Execution.WorkflowId
		desc, err := s.temporal.DescribeWorkflowExecution(ctx, id, "")
		if err != nil {
			return nil, err
		}
		for _, a := range desc.PendingActivities {
			if a.ActivityType.GetName() == "PlayEpisode" {
				games[game{id, a.ActivityId}] = a
			}
		}
	}
	return games, nil
}

// awaitGames waits until such workers play games, and answers who plays which.
func (s *forgetful) awaitGames(of func(worker string) bool) map[game]string {
	s.t.Helper()
	const enough = 6
	theirs := map[game]string{}
	err := stack.Await(s.t.Context(), 2*time.Minute, func(ctx context.Context) error {
		all, err := s.playing(ctx)
		clear(theirs)
		for g, a := range all {
			if a.State == enums.PENDING_ACTIVITY_STATE_STARTED && of(a.LastWorkerIdentity) {
				theirs[g] = a.LastWorkerIdentity
			}
		}
		if err == nil && len(theirs) < enough {
			err = fmt.Errorf("only %d games are played", len(theirs))
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return theirs
}

// rememberRedis copies what Redis' disk holds.
func (s *forgetful) rememberRedis() (dir string) {
	s.t.Helper()
	dir = filepath.Join(s.dir, "older")
	if err := os.CopyFS(dir, os.DirFS(s.log())); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

func (s *forgetful) log() string { return filepath.Join(s.dir, "redis", "appendonlydir") }

// redisComesBack kills Redis, which is started again with what its disk held before.
func (s *forgetful) redisComesBack(before string) {
	s.t.Helper()
	if err := errors.Join(os.Rename(s.log(), s.log()+".gone"), os.Rename(before, s.log())); err != nil {
		s.t.Fatal(err)
	}
	s.kill(s.PID("redis"))
}

// startLateWorker starts a worker that nobody starts again when it dies.
func (s *forgetful) startLateWorker(cfg crashtest.Config) (pid int) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), cfg.Millrace, "worker", "-c", filepath.Join(s.dir, "service.yaml"),
		"--redis", s.RedisURL, "--temporal", s.Temporal)
	cmd.Env = append(os.Environ(), "MILLRACE_SPOOL_DIR="+filepath.Join(s.dir, "spool"))
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	return cmd.Process.Pid
}

func (s *forgetful) kill(pid int) {
	s.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// judge waits until each of the games is with that worker no more, and looks why.
func (s *forgetful) judge(games map[game]string) {
	s.t.Helper()
	began := time.Now()
	var after []time.Duration
	left := maps.Clone(games)
	err := stack.Await(s.t.Context(), 4*time.Minute, func(ctx context.Context) error {
		all, err := s.playing(ctx)
		if err != nil {
			return err
		}
		for g := range left {
			if all[g] != nil {
				continue
			}
			why, err := s.end(ctx, g)
			if err != nil {
				return err
			}
			delete(left, g)
			after = append(after, time.Since(began).Round(100*time.Millisecond))
			if !strings.Contains(why, "is not heard of any more") {
				s.t.Errorf("a game goes on after %s: its attempt %s", after[len(after)-1], why)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%d of %d games are still with the worker that is gone", len(left), len(games))
		}
		return nil
	})
	s.t.Logf("%d games went on after %v", len(after), after)
	if err != nil {
		s.t.Error(err)
	}
}

// end is how an attempt at a game has ended, by the history of its group.
func (s *forgetful) end(ctx context.Context, g game) (string, error) {
	var scheduled int64
	for events := s.temporal.GetWorkflowHistory(ctx, g.group, "", false, 0); events.HasNext(); {
		e, err := events.Next()
		if err != nil {
			return "", err
		}
		failed, timedOut := e.GetActivityTaskFailedEventAttributes(), e.GetActivityTaskTimedOutEventAttributes()
		switch {
		case e.GetActivityTaskScheduledEventAttributes().GetActivityId() == g.activity:
			scheduled = e.EventId
		case failed != nil && failed.ScheduledEventId == scheduled:
			return "failed: " + failed.GetFailure().GetMessage(), nil
		case timedOut != nil && timedOut.ScheduledEventId == scheduled:
			return "timed out: " + timedOut.GetFailure().GetMessage(), nil
		}
	}
	return "has ended otherwise", nil
}
