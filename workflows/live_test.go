package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// A story is what happens to one run on a real server.
type story struct {
	run    rollout.RunName
	tell   func(w *liveWorld)
	pinned func(run rollout.RunName) []string // ids of the workflows whose histories are recorded
	noRun  bool                               // the story is of the fleet, and replays what it leaves
}

var stories = []story{
	{run: "fed", tell: fed, pinned: withGroups(0, 1)},
	{run: "stopped", tell: stopped, pinned: withGroups(0)},
	{run: "forgotten", tell: forgotten, pinned: withGroups()},
	{run: "shaped", tell: shaped, pinned: withGroups(0)},
	{run: "shrunk", tell: shrunk, pinned: withGroups(4)},
	{run: "outdated", tell: outdated, pinned: withGroups(0)},
	{run: "robbed", tell: robbed, pinned: withGroups()},
	{run: "resumed", tell: resumed, pinned: withGroups(3)},
	{run: "stumbling", tell: stumbling, pinned: withGroups(0)},
	{run: "heavy", tell: heavy, pinned: withGroups()},
	{run: "deserted", tell: deserted, pinned: withGroups()},
	{run: "wide", tell: wide, pinned: withGroups(0)},
	{run: "scaled", tell: scaled, pinned: func(run rollout.RunName) []string {
		return []string{workflows.Deployment(run).ScalingID()}
	}, noRun: true},
}

// withGroups names a run's workflow and those of some of its groups.
func withGroups(seqs ...rollout.GroupSeq) func(rollout.RunName) []string {
	return func(run rollout.RunName) []string {
		ids := []string{workflows.Deployment(run).RunID(run)}
		for _, seq := range seqs {
			ids = append(ids, workflows.Deployment(run).GroupID(rollout.GroupRef{Run: run, Seq: seq}))
		}
		return ids
	}
}

// Runs on a real Temporal server, whose histories are cut every 120 events: they are fed, changed, paused, given
// good and bad versions, lose groups, are stopped, forgotten by Redis; and every history that they leave replays.
func TestRunsOnARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Temporal server; run without -short")
	}
	server, err := testsuite.StartDevServer(t.Context(), testsuite.DevServerOptions{
		ExistingPath: temporalCLI(t), LogLevel: "error", ClientOptions: &client.Options{Logger: quiet},
		ExtraArgs: []string{"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=120",
			// As `millrace dev` has it: see temporalcli.DevServer.
			"--dynamic-config-value", "matching.useNewMatcher=true",
			"--dynamic-config-value", "matching.numTaskqueueReadPartitions=1",
			"--dynamic-config-value", "matching.numTaskqueueWritePartitions=1"},
	})
	if err != nil {
		t.Fatal("start the Temporal dev server:", err)
	}
	defer func() { _ = server.Stop() }()
	if *record != "" {
		openGeneration(t, *record)
	}
	for _, s := range stories {
		t.Run(string(s.run), func(t *testing.T) {
			w := newLiveWorld(t, server.Client(), s.run)
			defer w.close()
			s.tell(w)
			if !s.noRun {
				w.replayAll()
			}
			if *record != "" {
				for _, id := range s.pinned(s.run) {
					for i, h := range executionsOf(t, w.temporal, id) {
						writeHistory(t, *record, id, i, h)
					}
				}
			}
		})
	}
	if *record != "" {
		fleet := workflows.Deployment(stories[0].run).FleetID()
		writeHistory(t, *record, fleet, 0, historyOf(t, server.Client(), fleet, ""))
	}
}

// temporalCLI finds the CLI as make test leaves it.
func temporalCLI(t *testing.T) string {
	t.Helper()
	path, err := temporalcli.Find(os.Getenv, "..")
	if err != nil {
		t.Skip("needs the Temporal CLI:", err)
	}
	return path
}

// liveWorld is a worker on a real server and one run's trainer and operator, with the same working surroundings as
// world.
type liveWorld struct {
	t          *testing.T
	ctx        context.Context
	temporal   client.Client
	control    *workflows.Client
	rdb        *redis.Client
	buffer     *buffer.Store
	policy     *heldPolicy
	fleet      *memoryFleet
	workers    []worker.Worker
	spec       runspec.Spec
	generation rollout.TrainerGeneration
	terminated bool // by somebody else's hand
}

// heldPolicy answers at once, or never while it holds its requests.
type heldPolicy struct {
	*instantPolicy
	holds func(rollout.Request) bool
	held  atomic.Int64
}

func (p *heldPolicy) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	if p.holds != nil && p.holds(req) {
		p.held.Add(1)
		<-ctx.Done()
		return rollout.Completion{}, ctx.Err()
	}
	return p.instantPolicy.Complete(ctx, req)
}

// liveFleet is kept for a while each time, as a real one is.
type liveFleet struct{ *memoryFleet }

func (f liveFleet) Keep(ctx context.Context, beat func()) error {
	beat()
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
	return nil
}

// noEnds looks after nothing: each story ends its own run.
type noEnds struct{}

func (noEnds) Watch(context.Context) {}

// patience bounds a story.
const patience = 2 * time.Minute

func newLiveWorld(t *testing.T, c client.Client, run rollout.RunName) *liveWorld {
	t.Helper()
	redisServer := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: redisServer.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	deployment := workflows.Deployment(run)
	queues := deployment.Queues()
	w := &liveWorld{
		t: t, ctx: ctx, temporal: c,
		rdb: rdb, buffer: buffer.New(rdb, buffer.Options{Now: time.Now}),
		policy: &heldPolicy{instantPolicy: &instantPolicy{seen: map[rollout.PolicyVersion]int{}}},
		fleet: &memoryFleet{ready: []rollout.EngineID{"e1", "e2"}, bad: map[string]error{
			"/adapters/bad": rollout.Fail(rollout.Permanent, "bad_adapter",
				errors.New("rank 64 is greater than max_lora_rank 16")),
		}},
		spec: runspec.Spec{
			Name: run, Model: "base", Steps: 3,
			Environment: runspec.Environment{Kind: tictactoe.Kind},
			Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
			Buffer:      runspec.BufferSpec{Depth: 2, GroupsPerStep: 2, MaxStaleness: 4, OnStale: runspec.DropStale},
			Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
			Timeouts: runspec.Timeouts{
				Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour),
				Heartbeat: rollout.Duration(10 * time.Second),
			},
		},
	}
	w.control = &workflows.Client{Temporal: c, Namespace: "default", Deployment: deployment}
	acts := &activities.Activities{
		Buffer: w.buffer, Policy: w.policy,
		Emit: telemetry.Discard, Tell: telemetry.Discard, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Fleet:        liveFleet{w.fleet},
		Groups:       w.control,
		Heartbeats:   c,
		Ends:         noEnds{},
		DescribeGame: func(context.Context, rollout.EpisodeRef, rollout.PolicyVersion) {},
		Environments: func(e runspec.Environment) (episode.Environment, error) { return tictactoe.FromOptions(e.Options) },
	}
	control := worker.New(c, queues.Control, worker.Options{})
	control.RegisterWorkflow(workflows.Run)
	control.RegisterWorkflow(workflows.Group)
	control.RegisterWorkflow(workflows.Fleet)
	control.RegisterWorkflow(workflows.FleetScaling)
	control.RegisterActivity(acts)
	games := worker.New(c, queues.Of(run).Games, worker.Options{DisableWorkflowWorker: true})
	games.RegisterActivity(acts)
	w.workers = []worker.Worker{control, games}
	for _, each := range w.workers {
		if err := each.Start(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *liveWorld) close() {
	for _, each := range slices.Backward(w.workers) {
		each.Stop()
	}
}

// fed is fed, changed, paused, given three versions and a bad one, and loses a group; it ends when all steps are done.
func fed(w *liveWorld) {
	w.spec.Steps = 6
	w.policy.fail = func(req rollout.Request) error {
		if req.Episode.Seq == 1 {
			return rollout.Fail(rollout.GameFault, "act", errors.New("the board fell off the table"))
		}
		return nil
	}
	_, created, err := w.control.Start(w.ctx, w.spec)
	w.must("start", err)
	if !created {
		w.t.Error("the first start did not create the run")
	}
	_, created, err = w.control.Start(w.ctx, w.spec)
	w.must("start again", err)
	if created {
		w.t.Error("the second start created a second run")
	}
	other := w.spec
	other.Steps = 99
	if _, _, err = w.control.Start(w.ctx, other); !rollout.Refused(err, rollout.Conflict) {
		w.t.Errorf("another spec under the same name: %v", err)
	}
	for step := range rollout.Step(6) {
		w.claim(step)
		if step == 0 {
			w.changes()
		}
		if step < 3 {
			_, err := w.control.Publish(w.ctx, w.spec.Name, rollout.PolicyVersion(step+1),
				fmt.Sprintf("/adapters/%d", step+1), 0)
			w.must("publish", err)
		}
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
	if n := len(executionsOf(w.t, w.temporal, w.control.Deployment.RunID(w.spec.Name))); n < 2 {
		w.t.Errorf("the run's history was not cut: %d execution", n)
	}
	w.groupIsCheap(0)
}

// groupIsCheap: Temporal is asked for nothing but the games of a group that ends well, and wakes it for nothing but
// those. They are its load: a group of six games costs it a fifth less so.
func (w *liveWorld) groupIsCheap(seq rollout.GroupSeq) {
	id := w.control.Deployment.GroupID(rollout.GroupRef{Run: w.spec.Name, Seq: seq})
	games, tasks := 0, 0
	for _, event := range historyOf(w.t, w.temporal, id, "").Events {
		switch event.GetEventType() {
		case enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
			tasks++
		case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			games++
		case enums.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
			w.t.Error("a group has Temporal tell its run of its end")
		}
	}
	if games != w.spec.Group.Samples || tasks > 1+games {
		w.t.Errorf("%d activities and %d tasks for %d games", games, tasks, w.spec.Group.Samples)
	}
}

// changes does what an operator may, right and wrong.
func (w *liveWorld) changes() {
	deeper := spec.Change{Set: settings.Patch{"buffer.depth": 3}}
	for _, c := range []spec.Change{deeper, spec.Pause(true), spec.Pause(false)} {
		_, err := w.control.Change(w.ctx, w.spec.Name, c)
		w.must("change", err)
	}
	if _, err := w.control.Change(w.ctx, w.spec.Name,
		spec.Change{Set: settings.Patch{"buffer.depth": 0}}); !rollout.Refused(err, rollout.Invalid) {
		w.t.Errorf("depth 0: %v", err)
	}
	if _, err := w.control.Publish(w.ctx, w.spec.Name, 1, "/adapters/bad", 0); !rollout.Refused(err, rollout.Invalid) {
		w.t.Errorf("a bad adapter: %v", err)
	}
	if _, err := w.control.Publish(w.ctx, w.spec.Name, 7, "/adapters/7", 0); !rollout.Refused(err, rollout.OutOfOrder) {
		w.t.Errorf("version 7 after 0: %v", err)
	}
	if _, err := w.control.Stop(w.ctx, "nobody", "x"); !rollout.Refused(err, rollout.NoSuchRun) {
		w.t.Errorf("stop of an unknown run: %v", err)
	}
}

// stopped has a fixed policy, and is stopped by its operator while its games go on: they are cancelled.
func stopped(w *liveWorld) {
	w.spec.Policies = []runspec.FixedPolicy{{Name: "frozen", Path: "/adapters/frozen"}}
	w.policy.holds = func(rollout.Request) bool { return true }
	w.start()
	w.until("all games to begin", func() error {
		if held := w.policy.held.Load(); held < 8 {
			return fmt.Errorf("%d of 8 have", held)
		}
		return nil
	})
	_, err := w.control.Stop(w.ctx, w.spec.Name, "enough")
	w.must("stop", err)
	w.ends(runstatus.RunStopped)
	w.until("groups to end", func() error {
		counts, err := w.buffer.Counts(w.ctx, w.spec.Name)
		if err == nil && counts.Dropped < 4 {
			err = fmt.Errorf("%d of 4 were dropped", counts.Dropped)
		}
		return err
	})
}

// forgotten is forgotten by Redis after its first step and goes on at the second.
func forgotten(w *liveWorld) {
	w.start()
	w.claim(0)
	w.complete(0)
	w.until("the run to hear of it", func() error {
		status, err := w.control.Status(w.ctx, w.spec.Name)
		if err == nil && status.NextStep != 1 {
			err = fmt.Errorf("it is at step %d", status.NextStep)
		}
		return err
	})
	w.must("forget", w.rdb.FlushDB(w.ctx).Err())
	w.must("tell", w.control.BufferChanged(w.ctx, w.spec.Name, runstatus.Mark{}))
	for step := rollout.Step(1); step < 3; step++ {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// robbed has a group terminated by somebody else's hand, finds out, and replaces it.
func robbed(w *liveWorld) {
	w.policy.holds = func(req rollout.Request) bool { return req.Episode.Seq == 0 }
	w.start()
	group := w.control.Deployment.GroupID(rollout.GroupRef{Run: w.spec.Name, Seq: 0})
	w.until("the group to be there", func() error {
		return w.temporal.TerminateWorkflow(w.ctx, group, "", "a mistake")
	})
	w.until("the run to find out", func() error {
		status, err := w.control.Status(w.ctx, w.spec.Name)
		if err == nil && status.Failures["vanished"] != 1 {
			err = fmt.Errorf("failures %v", status.Failures)
		}
		return err
	})
	for step := range rollout.Step(3) {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// resumed is terminated by somebody else's hand after its first step, and goes on at the second.
func resumed(w *liveWorld) {
	w.start()
	w.claim(0)
	w.complete(0)
	run, lost := w.spec.Name, workflows.Lost{Spec: w.spec}
	w.terminated = true
	w.must("terminate", w.temporal.TerminateWorkflow(w.ctx, w.control.Deployment.RunID(run), "", "a mistake"))
	var err error
	lost.Status, err = w.buffer.Status(w.ctx, run)
	w.must("read the status", err)
	lost.Account, err = w.buffer.Account(w.ctx, run)
	w.must("read the account", err)
	_, err = w.control.Resume(w.ctx, lost)
	w.must("resume", err)
	for step := rollout.Step(1); step < 3; step++ {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// shaped starts a game more than it needs in each group, waits for late ones a moment only, filters groups that
// teach nothing, and is bounded in bytes. Of every second group one game never ends, of the others two.
func shaped(w *liveWorld) {
	w.spec.Group = runspec.GroupSpec{
		Samples: 3, MinSamples: 2, Oversample: 1, Grace: rollout.Duration(50 * time.Millisecond),
		ZeroVariance: runspec.DropZeroVariance,
	}
	w.spec.Buffer.MaxBytes = 8 << 10
	w.policy.holds = func(req rollout.Request) bool {
		return req.Episode.Sample >= 2+int(req.Episode.Seq)%2
	}
	w.start()
	for step := range rollout.Step(3) {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// shrunk has its depth lowered while all but two groups wait: the surplus is let go.
func shrunk(w *liveWorld) {
	w.spec.Buffer.Depth = 3
	var holding atomic.Bool
	holding.Store(true)
	w.policy.holds = func(req rollout.Request) bool { return req.Episode.Seq >= 2 && holding.Load() }
	w.start()
	w.until("two to be ready, and the others to wait", func() error {
		counts, err := w.buffer.Counts(w.ctx, w.spec.Name)
		if held := w.policy.held.Load(); err == nil && (counts.Ready < 2 || held < 8) {
			err = fmt.Errorf("%d are, and %d of 8 games do", counts.Ready, held)
		}
		return err
	})
	_, err := w.control.Change(w.ctx, w.spec.Name, spec.Change{Set: settings.Patch{"buffer.depth": 1}})
	w.must("lower the depth", err)
	w.until("the surplus to be let go", func() error { return w.lost(rollout.CodeShrunk) })
	holding.Store(false)
	for step := range rollout.Step(3) {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// outdated publishes a version that makes its groups in play too stale: they are let go and replaced.
func outdated(w *liveWorld) {
	w.spec.Buffer.MaxStaleness = 0
	w.policy.holds = func(req rollout.Request) bool { return req.Version == 0 }
	w.start()
	w.until("a game to wait", func() error {
		if w.policy.held.Load() == 0 {
			return errors.New("none does")
		}
		return nil
	})
	_, err := w.control.Publish(w.ctx, w.spec.Name, 1, "/adapters/1", 0)
	w.must("publish", err)
	w.until("what is stale to be let go", func() error { return w.lost(rollout.CodeStale) })
	for step := range rollout.Step(3) {
		w.claim(step)
		w.complete(step)
	}
	w.ends(runstatus.RunCompleted)
}

// lost waits for groups that were dropped with a code.
func (w *liveWorld) lost(code rollout.Code) error {
	status, err := w.control.Status(w.ctx, w.spec.Name)
	if err == nil && status.Failures[code] == 0 {
		err = fmt.Errorf("dropped are %v", status.Failures)
	}
	return err
}

func (w *liveWorld) start() {
	w.t.Helper()
	_, _, err := w.control.Start(w.ctx, w.spec)
	w.must("start", err)
}

// claim claims a step as a trainer does, which attaches again when it is refused.
func (w *liveWorld) claim(step rollout.Step) {
	w.t.Helper()
	run := w.spec.Name
	w.until("claim", func() (err error) {
		if w.generation == 0 {
			w.generation, _, err = w.buffer.Attach(w.ctx, run, nil)
		}
		if err == nil {
			_, err = w.buffer.Claim(w.ctx, run, step, w.generation, buffer.Share{})
		}
		if rollout.Refused(err, rollout.Fenced) {
			w.generation = 0
		}
		return err
	})
	w.must("tell of the claim", w.control.BufferChanged(w.ctx, run, runstatus.Mark{}))
}

// complete records a claimed step.
func (w *liveWorld) complete(step rollout.Step) {
	w.t.Helper()
	_, _, err := w.buffer.Complete(w.ctx, w.spec.Name, step, w.generation, steprecord.StepReport{WallSec: 1},
		steprecord.FleetView{})
	w.must("complete", err)
	// The run may have found out by itself, and ended.
	if err := w.control.BufferChanged(w.ctx, w.spec.Name, runstatus.Mark{}); !rollout.Refused(err, rollout.NoSuchRun) {
		w.must("tell of the step", err)
	}
}

func (w *liveWorld) ends(how runstatus.RunState) {
	w.t.Helper()
	w.until("the end of the run", func() error {
		status, err := w.control.Status(w.ctx, w.spec.Name)
		if err == nil && status.State != how {
			err = fmt.Errorf("the run is %s", status.State)
		}
		return err
	})
	// Its readers see the end before what it held is let go of.
	id := w.control.Deployment.RunID(w.spec.Name)
	w.must("the end of its workflow", w.temporal.GetWorkflow(w.ctx, id, "").Get(w.ctx, nil))
}

// replayAll replays every history of the run and of its groups.
func (w *liveWorld) replayAll() {
	w.t.Helper()
	status, err := w.control.Status(w.ctx, w.spec.Name)
	w.must("status", err)
	ids := []string{w.control.Deployment.RunID(w.spec.Name)}
	for seq := range rollout.GroupSeq(status.Launched) {
		id := w.control.Deployment.GroupID(rollout.GroupRef{Run: w.spec.Name, Seq: seq})
		if !w.terminated || w.knows(id) { // else the run was terminated before the group had begun
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		for i, h := range executionsOf(w.t, w.temporal, id) {
			if h = workflows.CompletedPrefix(h); len(h.Events) == 0 {
				continue // nobody has done anything yet
			}
			if err := replayer().ReplayWorkflowHistory(quiet, h); err != nil {
				w.t.Errorf("execution %d of %s does not replay: %v", i, id, err)
			}
		}
	}
}

// knows reports whether Temporal has a workflow of that name.
func (w *liveWorld) knows(id string) bool {
	w.t.Helper()
	_, err := w.temporal.DescribeWorkflowExecution(w.ctx, id, "")
	if _, is := errors.AsType[*serviceerror.NotFound](err); is {
		return false
	}
	w.must("look for "+id, err)
	return true
}

func (w *liveWorld) must(doing string, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", doing, err)
	}
}

// until tries until it succeeds: other processes are at work.
func (w *liveWorld) until(what string, try func() error) {
	w.t.Helper()
	if err := retry.Until(w.ctx, 10*time.Millisecond, func(context.Context) error { return try() }); err != nil {
		w.t.Fatalf("waited for %s: %v", what, err)
	}
}
