package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/processortime"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/trials/stack"
)

// TestWhatEndedRunsCost measures an idle server and an idle worker, real ones with their Redis, beside no run that is
// over and then beside MILLRACE_ENDED_RUNS of them: `make bench-ended`. Each of these was trained on for a step.
func TestWhatEndedRunsCost(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("MILLRACE_ENDED_RUNS"))
	if n == 0 {
		t.Skip("takes minutes; run it with `make bench-ended`")
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("needs redis-server")
	}
	s, err := stack.Start(t.Context(), stack.Config{
		Programs: stack.Programs{Millrace: os.Getenv("MILLRACE_BINARY"), Temporal: os.Getenv("MILLRACE_TEMPORAL"),
			Redis: binary},
		Dir: t.TempDir(), Workers: 1, Volatile: true, Service: "retention: 30d\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	o, err := redis.ParseURL(s.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	time.Sleep(20 * time.Second) // what begins has begun
	window := 40 * time.Second
	before := idle(t, s, rdb, window)
	t.Log("0 runs that are over: ", before)
	store := buffer.New(rdb, buffer.Options{})
	for i := range n {
		if err := endRun(t.Context(), store, rollout.RunName(fmt.Sprintf("over-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	for {
		winding, err := store.Winding(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		noted := rdb.SCard(t.Context(), "millrace:event-scopes").Val()
		if len(winding) == 0 && noted < 10 {
			break
		}
		time.Sleep(time.Second)
	}
	t.Logf("wound up within %.0f s", time.Since(began).Seconds())
	after := idle(t, s, rdb, window)
	t.Logf("%d runs that are over: %v", n, after)
	for what, is := range after {
		t.Logf("%-30s %8.2f %8.2f  ratio %.2f", what, before[what], is, is/before[what])
	}
}

// idle is what each part takes in a second, in ms of processor time, and how many commands Redis gets.
func idle(t *testing.T, s *stack.Stack, rdb *redis.Client, window time.Duration) map[string]float64 {
	t.Helper()
	read := func() map[string]float64 {
		now := map[string]float64{}
		for _, part := range []string{"redis", "server", "worker-0"} {
			sec, err := processortime.Of(s.PID(part))
			if err != nil {
				t.Fatal(err)
			}
			now[part+" ms/s"] = 1e3 * sec
		}
		for line := range strings.Lines(rdb.Info(t.Context(), "stats", "commandstats").Val()) {
			name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
			if name == "total_commands_processed" {
				now["commands/s"], _ = strconv.ParseFloat(text, 64) // Redis wrote it
			}
		}
		return now
	}
	first := read()
	time.Sleep(window)
	last := read()
	for what := range last {
		last[what] = (last[what] - first[what]) / window.Seconds()
	}
	return last
}

// endRun makes a run that was trained on for a step.
func endRun(ctx context.Context, b *buffer.Store, name rollout.RunName) error {
	now := time.Now()
	spec := runspec.Spec{Name: name, Model: "m", Steps: 1, Environment: runspec.Environment{Kind: tictactoe.Kind},
		Group: runspec.GroupSpec{Samples: 1, MinSamples: 1}, Buffer: runspec.BufferSpec{Depth: 1, GroupsPerStep: 1,
			MaxStaleness: 1, OnStale: runspec.DropStale, Prefill: runspec.PrefillBatch}}
	status := runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: now}
	g := &rollout.Group{Ref: rollout.GroupRef{Run: name}, Samples: 1, EpisodeSec: []float64{1}, ModelSec: []float64{1},
		Times: rollout.GroupTimes{LaunchedAt: now, StartedAt: now, ReadyAt: now}}
	trajectories := `[{"trajectory_id":"x","agent":"x","turns":[{"prompt_token_ids":[1],"token_ids":[2],` +
		`"logprobs":[-1],"finish_reason":"stop"}]}]`
	for _, do := range []func() error{
		func() error { return b.Open(ctx, spec) },
		func() error { return b.SaveStatus(ctx, status, 0) },
		func() error { return json.Unmarshal([]byte(trajectories), &g.Trajectories) },
		func() error { _, err := b.CommitGroup(ctx, g); return err },
		func() error { _, err := b.Claim(ctx, name, 0, 0, buffer.Share{}); return err },
		func() error {
			_, _, err := b.Complete(ctx, name, 0, 0, steprecord.StepReport{WallSec: 1}, steprecord.FleetView{})
			return err
		},
		func() error {
			status.State, status.EndedAt = runstatus.RunCompleted, time.Now()
			return b.SaveStatus(ctx, status, 0)
		},
	} {
		if err := do(); err != nil {
			return fmt.Errorf("run %s: %w", name, err)
		}
	}
	return nil
}
