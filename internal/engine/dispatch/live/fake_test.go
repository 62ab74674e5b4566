package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/dispatch"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// fake is an engine that takes a while for every request, unless told to behave otherwise.
type fake struct {
	id     rollout.EngineID
	takes  time.Duration
	answer func(ctx context.Context, req rollout.Request) (rollout.Completion, error) // nil: a good answer

	mu           sync.Mutex
	sick         error // of Health
	running, top int
	seen         []string // request ids, in order of arrival
}

func (f *fake) Complete(ctx context.Context, req rollout.Request) (rollout.Completion, error) {
	f.mu.Lock()
	f.running++
	f.top = max(f.top, f.running)
	f.seen = append(f.seen, req.ID)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	if f.answer != nil {
		return f.answer(ctx, req)
	}
	return good(ctx, req, f.takes)
}

func (f *fake) Health(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sick
}

func (f *fake) setSick(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sick = err
}

// good answers after a while, as long as somebody listens.
func good(ctx context.Context, req rollout.Request, takes time.Duration) (rollout.Completion, error) {
	select {
	case <-time.After(takes):
		return rollout.Completion{Model: req.Model, PromptTokenIDs: make([]int32, 100), TokenIDs: make([]int32, 10),
			Logprobs: make([]float32, 10), CachedTokens: 60}, nil
	case <-ctx.Done():
		code := rollout.CodeCancelled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = rollout.CodeTimeout
		}
		return rollout.Completion{}, rollout.Fail(rollout.Retryable, code, ctx.Err())
	}
}

// fault answers with a failure.
func fault(kind rollout.FailureKind, code rollout.Code) func(context.Context, rollout.Request) (rollout.Completion,
	error) {
	return func(context.Context, rollout.Request) (rollout.Completion, error) {
		return rollout.Completion{}, rollout.Fail(kind, code, errors.New("as told"))
	}
}

// rig is a running dispatcher over fakes. It must be made inside a synctest bubble.
type rig struct {
	*Dispatcher
	t     *testing.T
	fakes map[rollout.EngineID]*fake
	limit int
	stop  func() // ends Run and waits for it
}

func newRig(t *testing.T, cfg Config, limit int, fakes ...*fake) *rig {
	t.Helper()
	r := &rig{t: t, fakes: map[rollout.EngineID]*fake{}, limit: limit}
	for i, f := range fakes {
		f.id = rollout.EngineID('a' + rune(i))
		r.fakes[f.id] = f
	}
	if cfg.Clients == nil {
		cfg.Clients = func(e enginestate.Engine) Engine { return r.fakes[e.ID] }
	}
	r.Dispatcher = New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	r.stop = func() { cancel(); <-ended }
	r.SetEngines(r.list())
	return r
}

// list is the registry's view of the fakes, all ready.
func (r *rig) list() []enginestate.Engine {
	var out []enginestate.Engine
	for id := range r.fakes {
		out = append(out, enginestate.Engine{ID: id, URL: "http://" + string(id), State: enginestate.EngineReady,
			MaxInFlight: r.limit, Models: []string{"base"}, Adapters: []string{"r-v1"}})
	}
	return out
}

// with is the registry's view with one engine in another state.
func (r *rig) with(id rollout.EngineID, state enginestate.EngineState) []enginestate.Engine {
	out := r.list()
	for i := range out {
		if out[i].ID == id {
			out[i].State = state
		}
	}
	return out
}

// result is how a call ended.
type result struct {
	rollout.Completion
	err error
	at  time.Duration // since the rig's call
}

// call starts a request in the background.
func (r *rig) call(ctx context.Context, req rollout.Request) <-chan result {
	out := make(chan result, 1)
	began := time.Now()
	go func() {
		answer, err := r.Complete(ctx, req)
		out <- result{answer, err, time.Since(began)}
	}()
	return out
}

func turn(id string, group, sample int) rollout.Request {
	return rollout.Request{
		ID: id, Model: "r-v1", Timeout: rollout.Duration(time.Minute),
		Episode: rollout.EpisodeRef{GroupRef: rollout.GroupRef{Run: "r", Seq: rollout.GroupSeq(group)}, Sample: sample},
	}
}

// empty checks that nothing is left in the dispatcher and the books balance.
func (r *rig) empty() {
	r.t.Helper()
	st := r.Snapshot()
	rejected := int64(0)
	for _, n := range st.Rejected {
		rejected += n
	}
	if st.Queued != 0 || st.InFlight != 0 || st.Submitted != st.Completed+rejected {
		r.t.Errorf("not empty: %+v", st.Stats)
	}
	reply := make(chan int, 1)
	if r.post(func(o *eventLoop) { reply <- len(o.calls) }) {
		if n := <-reply; n != 0 {
			r.t.Errorf("%d calls are left", n)
		}
	}
}

// fast is a scheduler's configuration with short waits.
var fast = dispatch.Config{NoEngineTTL: 10 * time.Second}

func wantCode(t *testing.T, err error, code rollout.Code) {
	t.Helper()
	if rollout.CodeOf(err) != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}

func name(i int) string { return fmt.Sprintf("q%d", i) }
