package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/face/api"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	speckeys "github.com/millrace/millrace/internal/rollout/spec"
	"github.com/millrace/millrace/internal/scaling/scaledfleet"
	"github.com/millrace/millrace/internal/store/buffer"
)

const run = rollout.RunName("demo")

func spec() runspec.Spec {
	return runspec.Spec{
		Name: run, Model: "m", Steps: 3,
		Environment: runspec.Environment{Kind: "tictactoe", Options: json.RawMessage(`{"opening_moves":1}`)},
		Group:       runspec.GroupSpec{Samples: 2, MinSamples: 2},
		Buffer: runspec.BufferSpec{Depth: 2, GroupsPerStep: 2, MaxStaleness: 4, OnStale: runspec.DropStale,
			Prefill: runspec.PrefillBatch},
	}
}

// control stands in for the workflows: it keeps its account in the store, as they do.
type control struct {
	store *buffer.Store

	mu     sync.Mutex
	runs   map[rollout.RunName]*runstatus.RunStatus
	hinted chan rollout.RunName
	broken error
}

func (c *control) Start(ctx context.Context, spec runspec.Spec) (runstatus.RunStatus, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return runstatus.RunStatus{}, false, c.broken
	}
	if err := c.store.Open(ctx, spec); err != nil {
		return runstatus.RunStatus{}, false, err
	}
	if status, there := c.runs[spec.Name]; there {
		return *status, false, nil
	}
	status := &runstatus.RunStatus{Spec: spec, State: runstatus.RunRunning, StartedAt: time.Now()}
	c.runs[spec.Name] = status
	return *status, true, c.store.SaveStatus(ctx, *status, 0)
}

func (c *control) Delete(ctx context.Context, run rollout.RunName) error {
	return c.store.Delete(ctx, run)
}

// change applies f to a run's status and mirrors it.
func (c *control) change(ctx context.Context, run rollout.RunName,
	f func(*runstatus.RunStatus) error) (runstatus.RunStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, there := c.runs[run]
	if !there {
		return runstatus.RunStatus{}, rollout.Refuse(rollout.NoSuchRun, "run %s is not active", run)
	}
	if err := f(status); err != nil {
		return runstatus.RunStatus{}, err
	}
	return *status, c.store.SaveStatus(ctx, *status, 0)
}

func (c *control) Change(ctx context.Context, run rollout.RunName, change speckeys.Change) (runstatus.RunStatus,
	error) {
	return c.change(ctx, run, func(s *runstatus.RunStatus) error {
		after, err := change.Apply(s.Spec)
		if err == nil {
			s.Spec = after
		}
		return err
	})
}

func (c *control) Probe(
	ctx context.Context, run rollout.RunName, p runstatus.LoadProbeRequest,
) (runstatus.RunStatus, error) {
	return c.change(ctx, run, func(s *runstatus.RunStatus) error {
		switch {
		case p.End:
			s.LoadProbe = nil
		case s.LoadProbe != nil:
			return rollout.Refuse(rollout.Conflict, "run %s is probed already", run)
		default:
			s.LoadProbe = &runstatus.LoadProbe{Limit: p.Limit, FirstStep: s.NextStep + 1,
				LastStep: s.NextStep + rollout.Step(p.Steps)}
		}
		return nil
	})
}

func (c *control) Stop(ctx context.Context, run rollout.RunName, reason string) (runstatus.RunStatus, error) {
	return c.change(ctx, run, func(s *runstatus.RunStatus) error {
		s.State, s.Reason = runstatus.RunStopped, reason
		return nil
	})
}

func (c *control) Publish(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion,
	path string, _ rollout.TrainerGeneration) (runstatus.Policy, error) {
	policy := runstatus.Policy{Version: v, Adapter: v.Adapter(run), Path: path, State: runstatus.PolicyServing}
	_, err := c.change(ctx, run, func(s *runstatus.RunStatus) error {
		for _, known := range s.Policies {
			if known.Version == v && known.Path == path {
				return nil
			}
			if known.Version == v {
				return rollout.Refuse(rollout.Conflict, "version %d is published from %s", v, known.Path)
			}
		}
		if v != s.PolicyVersion+1 {
			return rollout.Refuse(rollout.OutOfOrder, "version %d does not follow %d", v, s.PolicyVersion)
		}
		if strings.Contains(path, "missing") {
			return rollout.Refuse(rollout.Invalid, "version %d: no adapter at %s", v, path)
		}
		s.PolicyVersion = v
		s.Policies = append(s.Policies, policy)
		return nil
	})
	return policy, err
}

func (c *control) Mark(context.Context, rollout.RunName) (runstatus.Mark, error) {
	return runstatus.Mark{}, nil
}

func (c *control) BufferChanged(_ context.Context, run rollout.RunName, _ runstatus.Mark) error {
	if c.hinted == nil {
		return nil
	}
	c.hinted <- run
	return errors.New("temporal is unavailable") // Hints may fail; nobody must notice.
}

// history is a run's events in memory.
type history struct {
	mu     sync.Mutex
	events []api.Event
	more   chan struct{}
}

func (h *history) Gone(context.Context, rollout.RunName) ([]api.GoneEvents, error) { return nil, nil }

func (h *history) add(kind, data string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, api.Event{ID: fmt.Sprint(len(h.events) + 1), Kind: kind, Data: json.RawMessage(data)})
	close(h.more)
	h.more = make(chan struct{})
}

func (h *history) after(id string, limit int) ([]api.Event, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	from := 1 + slices.IndexFunc(h.events, func(e api.Event) bool { return e.ID == id })
	return slices.Clone(h.events[from:min(len(h.events), from+limit)]), h.more
}

func (h *history) Recent(_ context.Context, _ rollout.RunName, after string, limit int) ([]api.Event, error) {
	events, _ := h.after(after, limit)
	return events, nil
}

func (h *history) Follow(ctx context.Context, _ rollout.RunName, after string, see func(api.Event) error) error {
	for {
		events, more := h.after(after, 1000)
		for _, e := range events {
			if err := see(e); err != nil {
				return err
			}
			after = e.ID
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fixture is a served API on an embedded Redis.
type fixture struct {
	t       *testing.T
	url     string
	server  *api.Server
	redis   *miniredis.Miniredis
	store   *buffer.Store
	control *control
	events  *history
	fleet   scaledfleet.Registry
	stop    func() // stops the server and waits; may be called again
}

func serve(t *testing.T, change func(*api.Config, *api.Deps)) *fixture {
	t.Helper()
	f := &fixture{t: t, redis: miniredis.RunT(t), events: &history{more: make(chan struct{})}}
	rdb := redis.NewClient(&redis.Options{Addr: f.redis.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	f.store = buffer.New(rdb, buffer.Options{Now: time.Now})
	f.fleet = scaledfleet.Registry{Registry: fleet.NewRegistry(rdb, "test", time.Now)}
	f.control = &control{store: f.store, runs: map[rollout.RunName]*runstatus.RunStatus{},
		hinted: make(chan rollout.RunName, 1000)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := api.Config{Listen: l.Addr().String(), Version: "test"}
	deps := api.Deps{
		Control: f.control, Store: f.store, Fleet: f.fleet, Workers: workerregistry.New(rdb, "test", time.Now),
		Events:   f.events,
		ReadSpec: func(b []byte) (s runspec.Spec, err error) { return s, json.Unmarshal(b, &s) },
	}
	deps.Game = func(ctx context.Context, ref rollout.EpisodeRef) (json.RawMessage, error) {
		return f.store.Game(ctx, ref)
	}
	if change != nil {
		change(&cfg, &deps)
	}
	f.server, err = newServer(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(ctx, l) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

// start starts the run of spec().
func (f *fixture) start() {
	f.t.Helper()
	body, err := json.Marshal(spec())
	if err != nil {
		f.t.Fatal(err)
	}
	f.want(f.do("POST", "/v1/runs", string(body)), 201)
}

// attach announces a trainer and answers its generation.
func (f *fixture) attach() rollout.TrainerGeneration {
	f.t.Helper()
	var a api.Attached
	f.want(f.do("POST", "/v1/runs/demo/trainer", ""), 200).into(&a)
	return a.Generation
}

// ready commits groups.
func (f *fixture) ready(seqs ...int) {
	f.t.Helper()
	ctx := context.Background()
	for _, seq := range seqs {
		g := group(seq)
		if _, err := f.store.Queue(ctx, g.Ref, []byte("s"), g.MinVersion, time.Now()); err != nil {
			f.t.Fatal(err)
		}
		if err := f.store.Start(ctx, g.Ref); err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.store.CommitGroup(ctx, g); err != nil {
			f.t.Fatal(err)
		}
	}
}

// held is what the first turn of each trajectory of a fixture's group was held to.
var held = rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{"a", "b"}}

func group(seq int) *rollout.Group {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ref := rollout.GroupRef{Run: run, Seq: rollout.GroupSeq(seq)}
	g := &rollout.Group{Ref: ref, Samples: 2, Times: rollout.GroupTimes{LaunchedAt: now, StartedAt: now, ReadyAt: now},
		EpisodeSec: []float64{1, 2}, ModelSec: []float64{1, 1}, QueueSec: []float64{0, 0}, EnvSec: []float64{0, 1}}
	for sample := range 2 {
		for _, agent := range []string{"O", "X"} {
			g.Trajectories = append(g.Trajectories, rollout.Trajectory{
				ID: rollout.EpisodeRef{GroupRef: ref, Sample: sample}.TrajectoryID(agent), Sample: sample, Agent: agent,
				Reward: float64(sample),
				Turns: []rollout.Turn{
					{Phase: "1", PromptTokenIDs: []int32{1, 2, int32(seq)}, TokenIDs: []int32{7, 151643},
						Logprobs: []float32{-0.25, -1e-7}, Engine: "e", FinishReason: "stop", Text: "a\"b",
						Constraint: held},
					{Phase: "2", PromptTokenIDs: []int32{1}, TokenIDs: []int32{8}, Logprobs: []float32{0}, Engine: "e",
						FinishReason: "length", Timing: rollout.Timing{QueueSec: 0.25, ExecSec: 1.5, Attempts: 2,
							Failed: []rollout.RequestFailure{{Engine: "f", Code: rollout.CodeTimeout, Sec: 0.5}}}},
				},
			})
		}
	}
	rollout.Normalise(g.Trajectories)
	return g
}

// answer is a response, read.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
}

func (f *fixture) do(method, path, body string, headers ...string) *answer {
	f.t.Helper()
	return f.send(method, path, strings.NewReader(body), headers...)
}

func (f *fixture) send(method, path string, body io.Reader, headers ...string) *answer {
	f.t.Helper()
	req, err := http.NewRequest(method, f.url+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return &answer{f.t, resp.StatusCode, resp.Header, got}
}

// want checks the status, and that whatever is not a success is a whole problem document.
func (f *fixture) want(a *answer, status int) *answer {
	f.t.Helper()
	if a.status != status {
		f.t.Fatalf("status %d, want %d: %s", a.status, status, bytes.TrimSpace(a.body))
	}
	if a.header.Get("X-Request-Id") == "" {
		f.t.Error("no X-Request-Id")
	}
	if status >= 400 {
		p := a.problem()
		if p.Status != status || p.Title == "" || p.Detail == "" || p.RequestID != a.header.Get("X-Request-Id") ||
			!strings.HasPrefix(p.Type, "urn:millrace:problem:") || a.header.Get("Content-Type") != "application/problem+json" {
			f.t.Errorf("not a whole problem: %s %s", a.header.Get("Content-Type"), a.body)
		}
	}
	return a
}

// refused checks a problem's status and type, and that its text says each of these.
func (f *fixture) refused(a *answer, status int, code string, says ...string) {
	f.t.Helper()
	f.want(a, status)
	p := a.problem()
	if p.Type != "urn:millrace:problem:"+code {
		f.t.Errorf("problem type %s, want %s: %s", p.Type, code, p.Detail)
	}
	for _, text := range says {
		if !strings.Contains(string(a.body), text) {
			f.t.Errorf("problem does not say %q: %s", text, a.body)
		}
	}
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
}

func (a *answer) problem() (p api.Problem) {
	a.t.Helper()
	a.into(&p)
	return p
}
