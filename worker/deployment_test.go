package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/millrace/millrace/config"
	"github.com/millrace/millrace/internal/control/runkeeper"
	"github.com/millrace/millrace/internal/face/demotrainer"
	"github.com/millrace/millrace/internal/game/tictactoe"
	"github.com/millrace/millrace/internal/kit/freeport"
	"github.com/millrace/millrace/internal/kit/retry"
	"github.com/millrace/millrace/internal/process/connections"
	"github.com/millrace/millrace/internal/process/reload"
	"github.com/millrace/millrace/internal/process/server"
	"github.com/millrace/millrace/internal/process/temporalcli"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/simulate/enginesim"
	"github.com/millrace/millrace/worker/workerconfig"
	"github.com/millrace/millrace/workflows"
)

// Two versions: the one before is today's, and the one after has one patch more. With MILLRACE_OLD, a binary of an
// earlier version, that one is before and today's is after.

// nextVersion is today's version with a patch that makes a run do something more.
type nextVersion struct {
	interceptor.WorkerInterceptorBase
}

// nextPatch is its patch: a timer that nobody waits for.
const nextPatch = "next"

func (*nextVersion) InterceptWorkflow(_ workflow.Context,
	next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &nextInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type nextInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (n *nextInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if workflow.GetInfo(ctx).WorkflowType.Name == "Run" &&
		workflow.GetVersion(ctx, nextPatch, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		workflow.NewTimer(ctx, time.Second)
	}
	return n.Next.ExecuteWorkflow(ctx, in)
}

// oldBinary is the version before, if it is a real one.
func oldBinary() string { return os.Getenv("MILLRACE_OLD") }

// after is the version after.
func after() []interceptor.WorkerInterceptor {
	if oldBinary() != "" {
		return nil
	}
	return []interceptor.WorkerInterceptor{&nextVersion{}}
}

// startedWith is the configuration in the file that a variable names, where another test starts this binary as a
// process.
func startedWith(t *testing.T, variable string) config.Service {
	t.Helper()
	file := os.Getenv(variable)
	if file == "" {
		t.Skip("is started by other tests")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.ReadService(file, data, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestWorkerProcess is a worker process when another test starts this binary as one.
func TestWorkerProcess(t *testing.T) {
	cfg := startedWith(t, "MILLRACE_TEST_WORKER")
	cfg.Worker.Preflight = os.Getenv("MILLRACE_TEST_PREFLIGHT")
	if os.Getenv("MILLRACE_TEST_FORGETFUL") != "" {
		sdkworker.SetStickyWorkflowCacheSize(0)
	}
	var version []interceptor.WorkerInterceptor
	if os.Getenv("MILLRACE_TEST_VERSION") != "before" {
		version = after()
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	if err := run(ctx, cfg.ForWorker(), wiring(cfg), slog.New(slog.NewTextHandler(os.Stderr, nil)),
		runkeeper.DefaultPace(), version...); err != nil {
		t.Fatal(err)
	}
}

// runWorker runs a worker as millrace worker does, but for a provider of engines.
func runWorker(ctx context.Context, cfg config.Service, log *slog.Logger) error {
	return Run(ctx, cfg.ForWorker(), wiring(cfg), log)
}

func wiring(cfg config.Service) Wiring {
	return Wiring{Changes: func(ctx context.Context, apply func(workerconfig.Config) error) {
		log := slog.New(slog.DiscardHandler)
		files := reload.NewFiles(log)
		reload.NewConfiguration(cfg, files, log).OnChange(func(next config.Service) error {
			return apply(next.ForWorker())
		})
		files.Watch(ctx)
	}}
}

// deployment is Temporal, Redis, two engines, an API server and a trainer; workers are for the test to start and stop.
type deployment struct {
	t        *testing.T
	ctx      context.Context
	dir      string
	cfg      config.Service
	temporal client.Client
	conns    *connections.Set
	run      rollout.RunName
	trained  chan error

	mu     sync.Mutex
	before map[string]bool // process ids of the workers of the version before
}

// patience bounds a test, on a machine that does twenty other things at once, too.
const patience = 8 * time.Minute

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Temporal server and worker processes; run without -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	devServer, err := testsuite.StartDevServer(ctx, testsuite.DevServerOptions{
		ExistingPath: temporalCLI(t), LogLevel: "error",
		ClientOptions: &client.Options{Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))},
		ExtraArgs: []string{
			"--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=250",
			// A workflow is deleted once the tasks of its end are checkpointed: every 30 s by default.
			"--dynamic-config-value", `history.transferProcessorUpdateAckInterval="1s"`,
			"--dynamic-config-value", `history.visibilityProcessorUpdateAckInterval="1s"`,
		},
	})
	if err != nil {
		t.Fatal("start the Temporal dev server:", err)
	}
	t.Cleanup(func() { _ = devServer.Stop() })
	d := &deployment{
		t: t, ctx: ctx, dir: t.TempDir(), run: "rolling", temporal: devServer.Client(), before: map[string]bool{},
		trained: make(chan error, 1),
	}
	d.write("engines", d.engine(4)+"\n"+d.engine(4)+"\n")
	d.write("service.yaml", fmt.Sprintf("listen: %s\nredis: {url: redis://%s/0, prefix: rolling}\ntemporal: {address: "+
		"%s}\nretain_steps: 1000\nengines_from: file:%s\n",
		freeAddress(t), miniredis.RunT(t).Addr(), devServer.FrontendHostPort(), filepath.Join(d.dir, "engines")))
	data, err := os.ReadFile(filepath.Join(d.dir, "service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if d.cfg, err = config.ReadService("service.yaml", data, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	if d.conns, err = connections.Open(ctx, "test", d.cfg.Config.Config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.conns.Close)
	d.while("the API server", func(ctx context.Context) error {
		return server.Run(ctx, d.cfg, "test", slog.New(slog.DiscardHandler))
	})
	return d
}

func (d *deployment) write(name, text string) {
	d.t.Helper()
	file := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// while runs a part of the service until the test ends.
func (d *deployment) while(what string, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(d.ctx)
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	d.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			d.t.Logf("%s ended: %v", what, err)
		}
	})
}

// engine starts a simulated engine, so many times faster than a real one.
func (d *deployment) engine(speed float64) (url string) {
	d.t.Helper()
	cfg := enginesim.DefaultConfig()
	cfg.Speed = speed
	return d.engineWith(cfg)
}

func (d *deployment) engineWith(cfg enginesim.Config) (url string) {
	d.t.Helper()
	engine, err := enginesim.New(cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.while("an engine", func(ctx context.Context) error { return engine.Serve(ctx, l) })
	return "http://" + l.Addr().String()
}

// train starts a run, and a trainer that trains it to its end.
func (d *deployment) train(steps int) {
	d.t.Helper()
	spec := d.spec(d.run, servedModel, steps)
	spec.Group = runspec.GroupSpec{Samples: 3, MinSamples: 3}
	spec.Buffer.Depth, spec.Buffer.GroupsPerStep = 2, 3
	spec.Adapters.PathPrefix = filepath.Join(d.dir, "adapters")
	spec.Buffer.Order, spec.Group.ZeroVariance = "", "" // as a server of the version before starts it
	d.start(spec)
	go func() {
		d.trained <- demotrainer.Run(d.ctx, demotrainer.Config{
			Server: "http://" + d.cfg.Listen, Run: string(d.run),
			Load: time.Millisecond, RefLogprobs: time.Millisecond, Publish: time.Millisecond, Train: 200 * time.Millisecond,
			HTTPClient: http.DefaultClient,
		})
	}()
}

// servedModel is the model of the deployment's engines.
const servedModel = "Qwen/Qwen2.5-7B-Instruct"

// spec is of a run of small games.
func (d *deployment) spec(run rollout.RunName, model string, steps int) runspec.Spec {
	spec := spec.Default()
	spec.Name, spec.Model, spec.Steps = run, model, steps
	spec.Environment = runspec.Environment{Kind: tictactoe.Kind}
	// Where Temporal takes a second for each heartbeat, games with a shorter timeout would be begun again and again.
	spec.Timeouts.Heartbeat = rollout.Duration(10 * time.Second)
	return spec
}

// start starts a run.
func (d *deployment) start(spec runspec.Spec) {
	d.t.Helper()
	d.until("the run to be started", func() error {
		_, _, err := d.conns.Control.Start(d.ctx, spec)
		return err
	})
}

// inProcess is a worker of today's version in the process of the test. When the test is over, what its dispatcher was
// told is replayed.
func (d *deployment) inProcess() {
	cfg := d.cfg
	cfg.Worker.DispatchLog = filepath.Join(d.t.TempDir(), "dispatch.log")
	d.t.Cleanup(func() { d.decidesTheSame(cfg.Worker.DispatchLog) })
	d.while("a worker", func(ctx context.Context) error { return runWorker(ctx, cfg, slog.New(slog.DiscardHandler)) })
}

// process is one worker.
type process struct {
	d    *deployment
	cmd  *exec.Cmd
	out  *strings.Builder
	done chan error
}

// How a worker process is to be.
const (
	before   = "MILLRACE_TEST_VERSION=before"
	careless = "MILLRACE_TEST_PREFLIGHT=off"
	// replays a workflow's whole history at each of its tasks, and any worker may get the next
	forgetful = "MILLRACE_TEST_FORGETFUL=1"
)

func (d *deployment) worker(how ...string) *process {
	d.t.Helper()
	file := filepath.Join(d.dir, "service.yaml")
	cmd := exec.CommandContext(d.ctx, os.Args[0], "-test.run=^TestWorkerProcess$", "-test.timeout=0")
	isOld := strings.Contains(strings.Join(how, " "), before)
	if isOld && oldBinary() != "" {
		cmd = exec.CommandContext(d.ctx, oldBinary(), "worker", "-c", file)
	}
	cmd.Env = append(append(os.Environ(), "MILLRACE_TEST_WORKER="+file), how...)
	p := &process{d: d, cmd: cmd, out: &strings.Builder{}, done: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func() { p.done <- cmd.Wait() }()
	if isOld {
		d.mu.Lock()
		d.before[strconv.Itoa(cmd.Process.Pid)] = true
		d.mu.Unlock()
	}
	d.t.Cleanup(p.kill)
	return p
}

// stop ends a worker as a deployment does.
func (p *process) stop() { p.end(os.Interrupt) }

func (p *process) kill() { p.end(syscall.SIGKILL) }

func (p *process) end(s os.Signal) {
	if p.done == nil {
		return
	}
	_ = p.cmd.Process.Signal(s) // it may have ended
	<-p.done
	p.done = nil
}

// reach waits until so many steps are completed.
func (d *deployment) reach(step rollout.Step) {
	d.t.Helper()
	d.until(fmt.Sprintf("step %d", step), func() error {
		account, err := d.conns.Buffer.Account(d.ctx, d.run)
		if err == nil && account.NextStep < step {
			err = fmt.Errorf("step %d of the run is next", account.NextStep)
		}
		return err
	})
}

func (d *deployment) until(what string, try func() error) {
	d.t.Helper()
	if err := retry.Until(d.ctx, 20*time.Millisecond, func(context.Context) error { return try() }); err != nil {
		d.t.Fatalf("waited for %s: %v", what, err)
	}
}

// completed checks that the run has ended well: every step has all its groups, and no group is in two.
func (d *deployment) completed(steps int) {
	d.t.Helper()
	if err := <-d.trained; err != nil {
		d.t.Errorf("the trainer: %v", err)
	}
	d.until("the run's end", func() error {
		// asked itself, the run might answer through a worker that cannot replay it
		status, err := d.conns.Buffer.Status(d.ctx, d.run)
		if err == nil && status.State != runstatus.RunCompleted {
			err = fmt.Errorf("it is %s", status.State)
		}
		return err
	})
	records, err := d.conns.Buffer.Steps(d.ctx, d.run, 0, steps+1)
	if err != nil || len(records) != steps {
		d.t.Fatalf("%d steps recorded, want %d: %v", len(records), steps, err)
	}
	in := map[rollout.GroupSeq]rollout.Step{}
	for _, r := range records {
		if !r.Done || len(r.Service.Groups) != 3 || r.Service.Trajectories != 3*3*2 {
			d.t.Errorf("step %d: done %v, %d groups, %d trajectories", r.Step, r.Done, len(r.Service.Groups),
				r.Service.Trajectories)
		}
		for _, g := range r.Service.Groups {
			if other, twice := in[g.Seq]; twice {
				d.t.Errorf("group %d is in steps %d and %d", g.Seq, other, r.Step)
			}
			in[g.Seq] = r.Step
		}
	}
}

// failures reads all histories of the run and its groups, which must replay with the version after, and tells how
// many of their tasks workers of the version before could not replay, and which patches the run's latest execution
// has. Workers of the version after must never fail.
func (d *deployment) failures() (before int, patches []string) {
	d.t.Helper()
	status, err := d.conns.Buffer.Status(d.ctx, d.run)
	if err != nil {
		d.t.Fatal(err)
	}
	deployment := d.conns.Control.Deployment
	ids := []string{deployment.RunID(d.run)}
	for seq := range rollout.GroupSeq(status.Launched) {
		ids = append(ids, deployment.GroupID(rollout.GroupRef{Run: d.run, Seq: seq}))
	}
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{Interceptors: after()})
	if err != nil {
		d.t.Fatal(err)
	}
	workflows.Register(replayer)
	for _, id := range ids {
		for execution := ""; ; {
			h := d.history(id, execution)
			for _, event := range h.Events {
				failed := event.GetWorkflowTaskFailedEventAttributes()
				if failed == nil || failed.GetCause() != enums.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR {
					continue
				}
				if d.isBefore(failed.GetIdentity()) {
					before++
				} else {
					d.t.Errorf("%s, by %s: %s", id, failed.GetIdentity(), failed.GetFailure().GetMessage())
				}
			}
			if execution == "" && id == ids[0] {
				patches = patchesIn(h)
			}
			continued := h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId()
			if h = workflows.CompletedPrefix(h); len(h.Events) == 0 {
				break // nobody has done anything yet
			}
			if err := replayer.ReplayWorkflowHistory(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)), h); err != nil {
				d.t.Errorf("%s does not replay: %v", id, err)
			}
			if execution = continued; execution == "" {
				break
			}
		}
	}
	return before, patches
}

func (d *deployment) history(id, execution string) *history.History {
	d.t.Helper()
	h := &history.History{}
	for it := d.temporal.GetWorkflowHistory(d.ctx, id, execution, false,
		enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			d.t.Fatalf("history of %s: %v", id, err)
		}
		h.Events = append(h.Events, event)
	}
	return h
}

// processOf finds the process id in a worker's identity: that of the registry of workers, or Temporal's own, which
// earlier versions have.
var processOf = regexp.MustCompile(`^(\d+)@|-(\d+)-[0-9a-f]{8}$`)

// isBefore reports whether a worker is of the version before.
func (d *deployment) isBefore(identity string) bool {
	found := processOf.FindStringSubmatch(identity)
	d.mu.Lock()
	defer d.mu.Unlock()
	return found != nil && d.before[found[1]+found[2]]
}

func patchesIn(h *history.History) (ids []string) {
	for _, event := range h.Events {
		if marker := event.GetMarkerRecordedEventAttributes(); marker.GetMarkerName() == "Version" {
			ids = append(ids, strings.Trim(string(marker.GetDetails()["change-id"].GetPayloads()[0].GetData()), `"`))
		}
	}
	return ids
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	return address
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
