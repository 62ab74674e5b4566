package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/adapterfiles"
	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/engine/share/workerregistry"
	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/eventstore"
)

// newRedis is an embedded Redis that lives in the test's synctest bubble, if it has one.
func newRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	return clientOf(t, miniredis.NewMiniRedis())
}

func clientOf(t testing.TB, server *miniredis.Miniredis) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr:            "127.0.0.1:6379", // not dialled, but a host name would be looked up
		Dialer:          func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		DisableIdentity: true,
		// Nobody waits for a connection: go-redis keeps the timers of those who do for the whole process, and one
		// that was made in a bubble must not be used outside.
		PoolSize: 4096,
	})
	t.Cleanup(func() {
		rdb.Close()
		server.Close()
	})
	return rdb
}

// fakeEngine is an engine that can be refused, hung, restarted and loaded.
type fakeEngine struct {
	mu         sync.Mutex
	fault      error // of every call
	hung       bool  // calls return only at their deadline
	adapters   map[string]string
	bad        map[string]error // loads that fail, by name
	loadTime   time.Duration
	answerTime time.Duration // of the list of models, which is as it was at the beginning
	loads      int
	hangs      map[string]bool // loads that are never answered, by name
	stuck      bool            // completions are accepted and never answered
	badAnswer  error           // of completions
	canaries   int
	sample     vllm.Sample
	score      map[string]law // logprobs by model
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{adapters: map[string]string{}, bad: map[string]error{}}
}

// set changes the engine under its lock.
func (e *fakeEngine) set(change func(*fakeEngine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

// canaryCount is how many canaries came.
func (e *fakeEngine) canaryCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.canaries
}

func (e *fakeEngine) serves(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.adapters[name] != ""
}

func (e *fakeEngine) answer(ctx context.Context) error {
	e.mu.Lock()
	hung, fault := e.hung, e.fault
	e.mu.Unlock()
	if hung {
		<-ctx.Done()
		return ctx.Err()
	}
	return fault
}

func (e *fakeEngine) Health(ctx context.Context) error { return e.answer(ctx) }

func (e *fakeEngine) Version(ctx context.Context) (string, error) { return "0.29.0", e.answer(ctx) }

func (e *fakeEngine) Models(ctx context.Context) ([]vllm.Model, error) {
	if err := e.answer(ctx); err != nil {
		return nil, err
	}
	e.mu.Lock()
	models := []vllm.Model{{ID: "base", Root: "base", MaxModelLen: 4096}}
	for name, path := range e.adapters {
		models = append(models, vllm.Model{ID: name, Root: path, Parent: "base"})
	}
	pause := e.answerTime
	e.mu.Unlock()
	time.Sleep(pause)
	return models, nil
}

func (e *fakeEngine) LoadAdapter(ctx context.Context, name, path string) error {
	if err := e.answer(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	pause, hangs := e.loadTime, e.hangs[name]
	e.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return rollout.Fail(rollout.Retryable, rollout.CodeTimeout, ctx.Err())
	}
	time.Sleep(pause)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loads++
	if err := e.bad[name]; err != nil {
		return err
	}
	e.adapters[name] = path
	return nil
}

func (e *fakeEngine) UnloadAdapter(ctx context.Context, name string) error {
	if err := e.answer(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.adapters, name)
	return nil
}

func (e *fakeEngine) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	e.mu.Lock()
	e.canaries++
	stuck, bad := e.stuck, e.badAnswer
	e.mu.Unlock()
	if stuck {
		<-time.After(req.Timeout.Std())
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, rollout.CodeTimeout, context.DeadlineExceeded)
	}
	if bad != nil {
		return rollout.Completion{}, bad
	}
	return rollout.Completion{Model: req.Model, TokenIDs: []int32{1}}, e.answer(ctx)
}

func (e *fakeEngine) Score(ctx context.Context, model string, tokens []int32) ([]float64, error) {
	if err := e.answer(ctx); err != nil {
		return nil, err
	}
	return e.score[model](tokens), nil
}

func (e *fakeEngine) Metrics(ctx context.Context) (vllm.Sample, error) {
	if err := e.answer(ctx); err != nil {
		return vllm.Sample{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sample, nil
}

var errRefused = rollout.Fail(rollout.Retryable, rollout.CodeEngineGone, errors.New("connection refused"))

// recorder keeps the events it is given, and finds those that were written in Redis.
type recorder struct {
	kept   *store.Store
	mu     sync.Mutex
	events []telemetry.Event
}

func (r *recorder) Emit(e telemetry.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Tell keeps an event.
func (r *recorder) Tell(_ context.Context, e telemetry.Event) error {
	r.Emit(e)
	return nil
}

// all is what was emitted so far, and what was written of the fleet.
func (r *recorder) all() []telemetry.Event {
	r.mu.Lock()
	all := slices.Clone(r.events)
	r.mu.Unlock()
	facts, err := r.kept.Facts(context.Background(), "", "", 100_000)
	if err != nil {
		panic(err)
	}
	for _, fact := range facts {
		e, err := fact.Event()
		if err != nil {
			panic(err)
		}
		all = append(all, e)
	}
	return all
}

// states is the sequence of states reported of an engine.
func (r *recorder) states(id rollout.EngineID) []enginestate.EngineState {
	var states []enginestate.EngineState
	for _, e := range r.all() {
		if body, ok := e.Body.(telemetry.EngineChanged); ok && e.Engine == id {
			states = append(states, body.State)
		}
	}
	return states
}

// rig is a fleet of fake engines under a running Keeper, in a synctest bubble.
type rig struct {
	t        *testing.T
	registry *fleet.Registry
	workers  *workerregistry.Registry
	sampler  *fleet.Sampler
	engines  map[string]*fakeEngine // by URL
	clients  sync.Map               // the same, and others: fleet.Client by URL; read by the keeper
	events   *recorder
}

func (r *rig) client(url string) fleet.Client {
	c, _ := r.clients.Load(url)
	return c.(fleet.Client)
}

func newRig(t *testing.T, engines ...string) *rig {
	t.Helper()
	return newRigOn(t, newRedis(t), engines...)
}

func newRigOn(t *testing.T, rdb redis.UniversalClient, engines ...string) *rig {
	t.Helper()
	r := &rig{
		t:        t,
		registry: fleet.NewRegistry(rdb, "test", time.Now),
		workers:  workerregistry.New(rdb, "test", time.Now),
		sampler:  fleet.NewSampler(rdb, "test"),
		engines:  map[string]*fakeEngine{},
		events:   &recorder{kept: store.New(rdb, "test", store.Limits{})},
	}
	for _, id := range engines {
		r.add(id)
	}
	keeper := fleet.NewKeeper(fleet.KeeperConfig{
		Registry: r.registry,
		Client:   func(e enginestate.Engine) fleet.Client { return r.client(e.URL) },
		Emit:     r.events,
		Tell:     r.events,
		Sampler:  r.sampler,
		Loader:   fleet.Loader{Records: r.registry, Files: adapterfiles.NewReader()},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- keeper.Keep(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("keep: %v", err)
		}
	})
	return r
}

func (r *rig) add(id string) *fakeEngine {
	r.t.Helper()
	url := fmt.Sprintf("http://%s:8000", id)
	e := newFakeEngine()
	r.engines[url] = e
	r.clients.Store(url, e)
	member := enginestate.Engine{ID: rollout.EngineID(id), URL: url, MaxInFlight: 8}
	if _, err := r.registry.Add(r.t.Context(), member); err != nil {
		r.t.Fatal(err)
	}
	return e
}

// within waits until an engine is as wanted, for at most d of the bubble's time, and says how long it took.
func (r *rig) within(d time.Duration, id rollout.EngineID, what string,
	ok func(enginestate.Engine) bool) time.Duration {
	r.t.Helper()
	start := time.Now()
	for {
		e, err := r.registry.Get(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if ok(e) {
			return time.Since(start)
		}
		if time.Since(start) > d {
			r.t.Fatalf("engine %s is not %s within %v: %+v", id, what, d, e)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func in(state enginestate.EngineState) func(enginestate.Engine) bool {
	return func(e enginestate.Engine) bool { return e.State == state }
}
