package workflows_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/buffer"
	"github.com/millrace/millrace/internal/episode"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/tictactoe"
	"github.com/millrace/millrace/workflows"
)

// record rewrites the histories under testdata from a run on a real server. Do so when a change of the workflows is
// meant to break running runs; otherwise a failing replay says that it would.
var record = flag.Bool("record", false, "write testdata/histories anew from the run on the real server")

func replayer() worker.WorkflowReplayer {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflow(workflows.Run)
	r.RegisterWorkflow(workflows.Group)
	r.RegisterWorkflow(workflows.Fleet)
	return r
}

var quiet = sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))

// Histories recorded from real runs replay with today's code: deploying it does not break the runs that go on.
func TestRecordedHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded histories: %v; make them with: go test ./workflows -run RealServer -record", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			if err := replayer().ReplayWorkflowHistoryFromJSONFile(quiet, file); err != nil {
				t.Error(err)
			}
		})
	}
}

// A run on a real Temporal server: it is fed, changed, paused, given two versions and a bad one, loses a group, ends; and
// every history that it leaves replays.
func TestRunOnARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server; run without -short")
	}
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: temporalCLI(t), LogLevel: "error", ClientOptions: &client.Options{Logger: quiet},
	})
	if err != nil {
		t.Fatal("start the Temporal dev server:", err)
	}
	defer func() { _ = server.Stop() }()
	w := newLiveWorld(t, server.Client())
	defer w.close()
	w.play(t)

	for _, id := range []string{workflows.RunID("demo"), "group/demo/0", "group/demo/1"} {
		events := historyOf(t, server.Client(), id)
		if err := replayer().ReplayWorkflowHistory(quiet, events); err != nil {
			t.Errorf("%s does not replay: %v", id, err)
		}
		if *record {
			writeHistory(t, id, events)
		}
	}
}

// temporalCLI finds the CLI as make test leaves it.
func temporalCLI(t *testing.T) string {
	t.Helper()
	onPath, _ := exec.LookPath("temporal")
	for _, path := range []string{os.Getenv("MILLRACE_TEMPORAL"), onPath, "../.bin/temporal"} {
		if info, err := os.Stat(path); path != "" && err == nil && !info.IsDir() {
			return path
		}
	}
	t.Skip("needs the temporal CLI: run `make test`, which builds it, or put one on the PATH")
	return ""
}

// liveWorld is a worker on a real server, with the same working surroundings as world.
type liveWorld struct {
	control *workflows.Client
	buffer  *buffer.Store
	fleet   *memoryFleet
	policy  *instantPolicy
	worker  worker.Worker
	games   worker.Worker
}

func newLiveWorld(t *testing.T, c client.Client) *liveWorld {
	t.Helper()
	redisServer := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	queues := workflows.QueuesOf("test")
	w := &liveWorld{
		control: &workflows.Client{Temporal: c, Queues: queues},
		buffer:  buffer.New(rdb, buffer.Options{Now: time.Now}),
		fleet: &memoryFleet{ready: []rollout.EngineID{"e1", "e2"}, bad: map[string]error{
			"/adapters/bad": rollout.Fail(rollout.Permanent, "bad_adapter", errors.New("rank 64 is greater than max_lora_rank 16")),
		}},
		policy: &instantPolicy{seen: map[rollout.PolicyVersion]int{}, fail: func(req rollout.Request) error {
			if req.Episode.Seq == 1 {
				return rollout.Fail(rollout.GameFault, "act", errors.New("the board fell off the table"))
			}
			return nil
		}},
	}
	acts := &activities.Activities{
		Buffer: w.buffer, Fleet: w.fleet, Policy: w.policy, Emit: telemetry.Discard, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Environments: func(e rollout.Environment) (episode.Environment, error) { return tictactoe.FromOptions(e.Options) },
	}
	w.worker = worker.New(c, queues.Control, worker.Options{})
	w.worker.RegisterWorkflow(workflows.Run)
	w.worker.RegisterWorkflow(workflows.Group)
	w.worker.RegisterWorkflow(workflows.Fleet)
	w.worker.RegisterActivity(acts)
	w.games = worker.New(c, queues.Games, worker.Options{DisableWorkflowWorker: true})
	w.games.RegisterActivity(acts)
	for _, each := range []worker.Worker{w.worker, w.games} {
		if err := each.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *liveWorld) close() {
	w.games.Stop()
	w.worker.Stop()
}

func (w *liveWorld) play(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	spec := rollout.Spec{
		Name: "demo", Model: "base", Steps: 3,
		Environment: rollout.Environment{Kind: tictactoe.Kind},
		Group:       rollout.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer:      rollout.BufferSpec{Depth: 2, GroupsPerStep: 2, MaxStaleness: 4, OnStale: rollout.DropStale},
		Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
		Timeouts: rollout.Timeouts{
			Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour), Heartbeat: rollout.Duration(10 * time.Second),
		},
	}
	must := func(doing string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
	}
	_, created, err := w.control.Start(ctx, spec)
	must("start", err)
	if !created {
		t.Error("the first start did not create the run")
	}
	_, created, err = w.control.Start(ctx, spec)
	must("start again", err)
	if created {
		t.Error("the second start created a second run")
	}
	other := spec
	other.Steps = 99
	if _, _, err = w.control.Start(ctx, other); !rollout.Refused(err, rollout.Conflict) {
		t.Errorf("another spec under the same name: %v", err)
	}

	var epoch rollout.Epoch
	w.until(ctx, t, "attach", func() (err error) {
		epoch, _, err = w.buffer.Attach(ctx, "demo", nil)
		return err
	})
	for step := range rollout.Step(3) {
		w.until(ctx, t, "claim", func() error {
			_, err := w.buffer.Claim(ctx, "demo", step, epoch, buffer.Share{})
			return err
		})
		must("claimed", w.control.Claimed(ctx, "demo", step))
		if step == 0 {
			w.change(ctx, t)
		}
		_, err := w.control.Publish(ctx, "demo", rollout.PolicyVersion(step+1), fmt.Sprintf("/adapters/%d", step+1))
		must("publish", err)
		_, _, err = w.buffer.Complete(ctx, "demo", step, epoch, rollout.StepReport{WallSec: 1}, rollout.FleetView{})
		must("complete", err)
		must("completed", w.control.Completed(ctx, "demo", step))
	}
	w.until(ctx, t, "the end of the run", func() error {
		status, err := w.control.Status(ctx, "demo")
		if err == nil && status.State != rollout.RunCompleted {
			err = fmt.Errorf("the run is %s", status.State)
		}
		return err
	})
}

// change does what an operator may, right and wrong.
func (w *liveWorld) change(ctx context.Context, t *testing.T) {
	t.Helper()
	depth, none, paused, resumed := 3, 0, true, false
	for _, c := range []rollout.Change{{Depth: &depth}, {Paused: &paused}, {Paused: &resumed}} {
		if _, err := w.control.Change(ctx, "demo", c); err != nil {
			t.Errorf("change: %v", err)
		}
	}
	if _, err := w.control.Change(ctx, "demo", rollout.Change{Depth: &none}); !rollout.Refused(err, rollout.Invalid) {
		t.Errorf("depth 0: %v", err)
	}
	if _, err := w.control.Publish(ctx, "demo", 1, "/adapters/bad"); !rollout.Refused(err, rollout.Invalid) {
		t.Errorf("a bad adapter: %v", err)
	}
	if _, err := w.control.Publish(ctx, "demo", 7, "/adapters/7"); !rollout.Refused(err, rollout.OutOfOrder) {
		t.Errorf("version 7 after 0: %v", err)
	}
	if _, err := w.control.Stop(ctx, "nobody", "x"); !rollout.Refused(err, rollout.NoSuchRun) {
		t.Errorf("stop of an unknown run: %v", err)
	}
}

// until tries until it succeeds: other processes are at work.
func (w *liveWorld) until(ctx context.Context, t *testing.T, what string, try func() error) {
	t.Helper()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func historyOf(t *testing.T, c client.Client, id string) *history.History {
	t.Helper()
	h := &history.History{}
	for it := c.GetWorkflowHistory(t.Context(), id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			t.Fatalf("history of %s: %v", id, err)
		}
		h.Events = append(h.Events, event)
	}
	return h
}

func writeHistory(t *testing.T, id string, h *history.History) {
	t.Helper()
	for _, event := range h.Events {
		scrub(event.ProtoReflect())
	}
	b, err := protojson.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata/histories", 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("testdata/histories", strings.ReplaceAll(id, "/", "-")+".json")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// scrub takes the names of processes and machines out of a recorded event.
func scrub(m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Name() == "identity":
			m.Set(field, protoreflect.ValueOfString("recorder"))
		case field.Kind() == protoreflect.MessageKind && !field.IsList() && !field.IsMap():
			scrub(v.Message())
		}
		return true
	})
}
