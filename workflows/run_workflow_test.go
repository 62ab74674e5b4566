package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/millrace/millrace/activities"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/game/episode"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/steprecord"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/scaling/supply"
	"github.com/millrace/millrace/internal/store/buffer"
	"github.com/millrace/millrace/workflows"
)

// world is everything around the workflows, working but without engines: the real buffer on an embedded Redis, real
// games of tic-tac-toe, a policy that answers at once, and a fleet in memory.
type world struct {
	t          *testing.T
	env        *testsuite.TestWorkflowEnvironment
	rdb        *redis.Client
	buffer     *buffer.Store
	fleet      *memoryFleet
	policy     *instantPolicy
	acts       *activities.Activities
	updates    int // sent
	spec       runspec.Spec
	generation rollout.TrainerGeneration
	fed        []rollout.GroupSeq // groups in claimed batches, in order
	groups     []rollout.Group    // the same, whole
}

// instantPolicy answers every request with an allowed choice.
type instantPolicy struct {
	mu   sync.Mutex
	seen map[rollout.PolicyVersion]int
	fail func(rollout.Request) error
}

func (p *instantPolicy) Complete(_ context.Context, req rollout.Request) (rollout.Completion, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail != nil {
		if err := p.fail(req); err != nil {
			return rollout.Completion{}, err
		}
	}
	p.seen[req.Version]++
	text := req.Constraint.Choices[int(req.Seed%int64(len(req.Constraint.Choices)))]
	return rollout.Completion{
		Text: text, PromptTokenIDs: []int32{1}, TokenIDs: []int32{2}, Logprobs: []float32{-1},
		FinishReason: rollout.FinishStop, Model: req.Model, Engine: "e1",
	}, nil
}

// memoryFleet is a fleet whose engines take every adapter but those named bad.
type memoryFleet struct {
	mu     sync.Mutex
	ready  []rollout.EngineID
	bad    map[string]error // by engine/path or path
	dies   rollout.EngineID // is no longer ready after a load failed on it
	loaded []string
	wanted []string
	newest rollout.PolicyVersion

	histories int // of its Redis
	doubted   int // how often it was told that its Redis has lost something

	adapters []fleet.Adapter                       // wanted, as they were
	hangs    rollout.EngineID                      // answers no load
	asked    map[rollout.EngineID]fleet.LoadRecord // asked to load what is asked about
}

func (f *memoryFleet) List(context.Context) ([]enginestate.Engine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []enginestate.Engine
	for _, id := range f.ready {
		e := enginestate.Engine{ID: id, State: enginestate.EngineReady, Models: []string{"base"}}
		for _, loaded := range f.loaded {
			if name, ok := strings.CutPrefix(loaded, string(id)+" "); ok {
				e.Adapters = append(e.Adapters, name)
			}
		}
		out = append(out, e)
	}
	return append(out, enginestate.Engine{ID: "away", State: enginestate.EngineLost}), nil
}

func (f *memoryFleet) Load(ctx context.Context, e rollout.EngineID, a fleet.Adapter) (float64, error) {
	if e == f.hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range []string{a.Path, string(e) + a.Path} {
		if err := f.bad[key]; err != nil {
			f.ready = slices.DeleteFunc(f.ready, func(id rollout.EngineID) bool { return id == e && e == f.dies })
			return 0, fmt.Errorf("engine %s: %w", e, err)
		}
	}
	f.loaded = append(f.loaded, string(e)+" "+a.Name)
	return 0.1, nil
}

func (f *memoryFleet) Want(_ context.Context, a fleet.Adapter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.wanted, a.Name) {
		f.wanted, f.adapters = append(f.wanted, a.Name), append(f.adapters, a)
	}
	f.newest = max(f.newest, a.Version)
	return nil
}

func (f *memoryFleet) Unload(_ context.Context, e rollout.EngineID, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded = slices.DeleteFunc(f.loaded, func(l string) bool { return l == string(e)+" "+name })
	return nil
}

func (f *memoryFleet) ForgetLoads(context.Context, rollout.EngineID, ...string) error { return nil }

func (f *memoryFleet) Wanted(context.Context) ([]fleet.Adapter, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.adapters), nil
}

func (f *memoryFleet) AskedToLoad(context.Context, string) (map[rollout.EngineID]fleet.LoadRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked), nil
}

func (f *memoryFleet) History(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("history %d", f.histories), nil
}

// goBack makes the fleet forget what is wanted, as its Redis does.
func (f *memoryFleet) goBack() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.histories++
	f.wanted, f.adapters = nil, nil
}

func (f *memoryFleet) Scaled(context.Context) (*supply.View, error) { return nil, nil }

func (f *memoryFleet) EndScaling(context.Context, time.Time) error { return nil }

func (f *memoryFleet) DoubtLoads(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubted++
	return nil
}

func (f *memoryFleet) Newest(context.Context, rollout.RunName) (rollout.PolicyVersion, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.newest, nil
}

func (f *memoryFleet) Unwant(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = slices.DeleteFunc(f.wanted, func(n string) bool { return n == name })
	f.adapters = slices.DeleteFunc(f.adapters, func(a fleet.Adapter) bool { return a.Name == name })
	return nil
}

func (f *memoryFleet) Keep(context.Context, func()) error { return nil }

func newWorld(t *testing.T) *world {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })

	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	w := &world{
		t: t, env: env,
		rdb:    rdb,
		buffer: buffer.New(rdb, buffer.Options{Now: env.Now}),
		fleet:  &memoryFleet{ready: []rollout.EngineID{"e1", "e2"}, bad: map[string]error{}},
		policy: &instantPolicy{seen: map[rollout.PolicyVersion]int{}},
		spec: runspec.Spec{
			Name: "demo", Model: "base", Steps: 4,
			Environment: runspec.Environment{Kind: tictactoe.Kind},
			Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
			Buffer:      runspec.BufferSpec{Depth: 2, GroupsPerStep: 3, MaxStaleness: 4, OnStale: runspec.DropStale},
			Sampling:    rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
			Timeouts: runspec.Timeouts{
				Completion: rollout.Duration(time.Minute), Episode: rollout.Duration(time.Hour),
				Heartbeat: rollout.Duration(10 * time.Second),
			},
		},
	}
	env.SetTestTimeout(time.Minute)
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: workflows.Deployment("test").RunID("demo"),
		TaskQueue: "test-control"})
	env.RegisterWorkflow(workflows.Run)
	env.RegisterWorkflow(workflows.Group)
	w.acts = &activities.Activities{
		Buffer: w.buffer, Fleet: w.fleet, Groups: missing(-1), Heartbeats: heard{}, Policy: w.policy,
		Emit: telemetry.Discard, Tell: telemetry.Discard, Now: env.Now,
		Log:          slog.New(slog.DiscardHandler),
		DescribeGame: func(context.Context, rollout.EpisodeRef, rollout.PolicyVersion) {},
		Environments: func(e runspec.Environment) (episode.Environment, error) { return tictactoe.FromOptions(e.Options) },
	}
	env.RegisterActivity(w.acts)
	return w
}

// heard is a Temporal that hears every heartbeat: the test environment, which wants to hear of the SDK.
type heard struct{}

func (heard) RecordActivityHeartbeat(ctx context.Context, _ []byte, details ...any) error {
	activity.RecordHeartbeat(ctx, details...)
	return nil
}

func (w *world) start() {
	w.env.ExecuteWorkflow(workflows.Run, workflows.RunInput{Spec: w.spec, Deployment: "test"})
}

// at runs f after a time of the workflow's clock; the test's trainer and operator act there.
func (w *world) at(d time.Duration, f func()) { w.env.RegisterDelayedCallback(f, d) }

// train claims and completes a step as a trainer does, and notes what it was fed.
func (w *world) train(step rollout.Step) {
	w.t.Helper()
	ctx := context.Background()
	if w.generation == 0 {
		generation, _, err := w.buffer.Attach(ctx, w.spec.Name, nil)
		if err != nil {
			w.t.Errorf("attach: %v", err)
			return
		}
		w.generation = generation
	}
	batch, err := w.buffer.Claim(ctx, w.spec.Name, step, w.generation, buffer.Share{})
	if err != nil {
		w.t.Errorf("claim %d: %v", step, err)
		return
	}
	w.hint()
	for i := range batch.Groups {
		w.fed = append(w.fed, batch.Groups[i].Ref.Seq)
		w.groups = append(w.groups, batch.Groups[i])
	}
	report := steprecord.StepReport{WallSec: 1, Phases: map[steprecord.Phase]float64{steprecord.PhaseTrain: 1}}
	if _, _, err := w.buffer.Complete(ctx, w.spec.Name, step, w.generation, report, steprecord.FleetView{}); err != nil {
		w.t.Errorf("complete %d: %v", step, err)
	}
	w.hint()
}

// hint tells the run that the buffer has changed.
func (w *world) hint() { w.env.SignalWorkflow(workflows.SignalBufferChanged, nil) }

// update sends an Update and hands its answer to then.
func (w *world) update(name string, arg any, then func(answer any, err error)) {
	w.env.UpdateWorkflow(name, fmt.Sprintf("%s-%v", name, arg), callbacks(then), arg)
}

type callbacks func(any, error)

func (callbacks) Accept()                        {}
func (c callbacks) Reject(err error)             { c(nil, err) }
func (c callbacks) Complete(answer any, e error) { c(answer, e) }

// status is the run's, while it goes on.
func (w *world) status() runstatus.RunStatus {
	w.t.Helper()
	var status runstatus.RunStatus
	answer, err := w.env.QueryWorkflow(workflows.QueryStatus)
	if err == nil {
		err = answer.Get(&status)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

// result is the run's last status.
func (w *world) result() runstatus.RunStatus {
	w.t.Helper()
	if !w.env.IsWorkflowCompleted() {
		w.t.Fatal("the run did not end")
	}
	var status runstatus.RunStatus
	if err := w.env.GetWorkflowResult(&status); err != nil {
		w.t.Fatal(err)
	}
	return status
}

func TestRunFeedsEveryStepInOrderAndEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for step := range rollout.Step(4) {
		w.at(time.Duration(step+1)*time.Minute+5*time.Second, func() { w.train(step) }) // between two comparisons
	}
	w.at(time.Minute+6*time.Second, func() {
		if launched := w.status().Launched; launched != 9 {
			t.Errorf("%d groups launched a second after the first claim, want 9: the hint of it was lost", launched)
		}
	})
	w.start()
	status := w.result()
	if status.State != runstatus.RunCompleted || status.NextStep != 4 {
		t.Errorf("ended %s at step %d", status.State, status.NextStep)
	}
	// Oldest first, none twice, none left over: 4 steps x 3 groups.
	for i, seq := range w.fed {
		if int(seq) != i {
			t.Fatalf("fed %v, want 0 to 11 in order", w.fed)
		}
	}
	if len(w.fed) != 12 || status.Launched != 12 {
		t.Errorf("fed %d groups of %d launched, want 12 of 12", len(w.fed), status.Launched)
	}
}

// TestFixedPoliciesStayForTheWholeRun: on the engines before the first game, and gone with the run.
func TestFixedPoliciesStayForTheWholeRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Policies = []runspec.FixedPolicy{{Name: "base"}, {Name: "frozen", Path: "/adapters/frozen"}}
	w.at(time.Minute, func() {
		if !slices.Equal(w.fleet.wanted, []string{"demo:frozen"}) || len(w.fleet.loaded) != 2 {
			t.Errorf("the fleet keeps %v, engines have %v", w.fleet.wanted, w.fleet.loaded)
		}
		w.update(workflows.UpdateStop, "done", func(any, error) {})
	})
	w.start()
	w.result()
	if len(w.fleet.wanted) != 0 {
		t.Errorf("after the run the fleet keeps %v", w.fleet.wanted)
	}
}

// TestRunIsStoppedWhileItsFixedPoliciesLoad: those that are not on the engines yet are not brought there.
func TestRunIsStoppedWhileItsFixedPoliciesLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		name := fmt.Sprintf("p%d", i)
		w.spec.Policies = append(w.spec.Policies, runspec.FixedPolicy{Name: name, Path: "/adapters/" + name})
	}
	w.fleet.bad["/adapters/p2"] = rollout.Fail(rollout.Retryable, "engine_error", errors.New("the disk is slow"))
	w.at(1500*time.Millisecond, func() { // p2 is tried again
		w.update(workflows.UpdateStop, "enough", func(any, error) {})
	})
	w.start()
	if status := w.result(); status.State != runstatus.RunStopped || status.Reason != "enough" {
		t.Errorf("ended %s (%s)", status.State, status.Reason)
	}
	if len(w.fleet.loaded) != 4 || len(w.fleet.wanted) != 0 {
		t.Errorf("engines loaded %v, the fleet keeps %v; want the first two on both engines, and none kept",
			w.fleet.loaded, w.fleet.wanted)
	}
}

func TestBadFixedPolicyEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.spec.Policies = []runspec.FixedPolicy{{Name: "frozen", Path: "/adapters/bad"}}
	w.fleet.bad["/adapters/bad"] = rollout.Fail(rollout.Permanent, "bad_adapter", errors.New("use_dora is true"))
	w.start()
	const want = "policy frozen: engine e1, e2: bad_adapter: use_dora is true" // one cause is told once, with its engines
	if status := w.result(); status.State != runstatus.RunFailed || status.Reason != want {
		t.Errorf("ended %s (%s), want %q", status.State, status.Reason, want)
	}
}

// TestRefreshEachTurn: games in play take a version that is published meanwhile, and every turn says so.
func TestRefreshEachTurn(t *testing.T) {
	t.Parallel()
	for refresh, both := range map[runspec.PolicyRefresh]bool{runspec.RefreshGroup: false, runspec.RefreshTurn: true} {
		t.Run(string(refresh), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.spec.PolicyRefresh = refresh
			w.spec.Steps = 1
			turns := 0
			w.policy.fail = func(rollout.Request) error { // called for each turn
				if turns++; turns == 12 {
					w.fleet.mu.Lock()
					w.fleet.newest = 1
					w.fleet.mu.Unlock()
				}
				return nil
			}
			w.at(time.Minute, func() {
				generation, _, err := w.buffer.Attach(context.Background(), "demo", nil)
				if err != nil {
					t.Error(err)
					return
				}
				batch, err := w.buffer.Claim(context.Background(), "demo", 0, generation, buffer.Share{})
				if err != nil {
					t.Error(err)
					return
				}
				mixed := false
				for _, g := range batch.Groups {
					for _, trajectory := range g.Trajectories {
						for _, turn := range trajectory.Turns {
							mixed = mixed || turn.PolicyVersion == 1
						}
					}
				}
				if mixed != both {
					t.Errorf("turns of version 1: %v, want %v", mixed, both)
				}
				w.update(workflows.UpdateStop, "done", func(any, error) {})
			})
			w.start()
			w.result()
		})
	}
}
