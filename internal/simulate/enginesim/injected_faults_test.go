package enginesim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// try sends a completion that may fail in any way.
func (r *rig) try(ctx context.Context, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(raw), resp.Header}, err
}

func TestFaultAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault  Fault
		status int
		want   string
	}{
		{Fault{Kind: FaultOverload}, 503, `"code":503`},
		{Fault{Kind: FaultScaling}, 503, `{"error":"The model is currently scaling. Please try again later."}`},
		{Fault{Kind: FaultStatus, Status: 429}, 429, `"code":429`},
		{Fault{Kind: FaultDead}, 500, "EngineCore encountered an issue. See stack trace (above) for the root cause."},
	} {
		t.Run(string(tt.fault.Kind), func(t *testing.T) {
			t.Parallel()
			r := start(t, fast())
			if err := r.engine.Inject(t.Context(), tt.fault); err != nil {
				t.Fatal(err)
			}
			got := r.post("/v1/completions", `{"prompt": "x"}`)
			if got.status != tt.status || !strings.Contains(got.body, tt.want) {
				t.Errorf("%d %s", got.status, got.body)
			}
			if tt.fault.Kind == FaultDead && r.get("/health").status != 503 {
				t.Error("a dead engine is healthy")
			}
			if err := r.engine.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.completion(`{"prompt": "x"}`)
		})
	}
}

func TestFaultsThatBreakConnections(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	inject := func(f Fault) {
		t.Helper()
		if err := r.engine.Inject(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	inject(Fault{Kind: FaultDrop, Path: "/v1/completions", Requests: 1})
	if _, err := r.try(t.Context(), `{"prompt": "x"}`); err == nil {
		t.Error("a dropped request is answered")
	}
	inject(Fault{Kind: FaultTruncate, Bytes: 30, Requests: 1})
	if got, err := r.try(t.Context(), `{"prompt": "x"}`); !errors.Is(err, io.ErrUnexpectedEOF) || len(got.body) != 30 {
		t.Errorf("truncated: %q, %v", got.body, err)
	}
	inject(Fault{Kind: FaultTrickle, Every: time.Microsecond, Requests: 1})
	if got, err := r.try(t.Context(), `{"prompt": "x"}`); err != nil || !strings.HasSuffix(got.body, "}") {
		t.Errorf("trickled: %q, %v", got.body, err)
	}
	r.completion(`{"prompt": "x"}`) // every fault was for one request
}

func TestHangEndsWithTheClientOrTheEngine(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	// hang sends a request and returns when the engine holds it.
	hang := func(ctx context.Context) <-chan error {
		if err := r.engine.Inject(t.Context(), Fault{Kind: FaultHang, Requests: 1}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := r.try(ctx, `{"prompt": "x"}`); ended <- err }()
		for r.engine.faults.any() && t.Context().Err() == nil {
			runtime.Gosched()
		}
		return ended
	}
	ctx, leave := context.WithCancel(t.Context())
	left := hang(ctx)
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left got %v", err)
	}
	dropped := hang(t.Context())
	if err := r.engine.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := <-dropped; err == nil {
		t.Error("the restart left a hanging request answered")
	}
	r.completion(`{"prompt": "x"}`)
}

// any reports whether a fault waits for requests.
func (f *faults) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.active) > 0
}

func TestRestartForgets(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	r.loadAdapter("run-v1")
	r.completion(`{"model": "run-v1", "prompt": "x"}`)
	if err := r.engine.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := r.post("/v1/completions", `{"model": "run-v1", "prompt": "x"}`); got.status != 404 {
		t.Errorf("a restarted engine knows an adapter: %d %s", got.status, got.body)
	}
	if n := r.scrape().value(t, "prompt_tokens_total"); n != 0 {
		t.Errorf("%g prompt tokens after the restart", n)
	}
	r.loadAdapter("run-v1")
	r.completion(`{"model": "run-v1", "prompt": "x"}`)
}

func TestFaultRoutes(t *testing.T) {
	t.Parallel()
	closed := start(t, fast())
	if got := closed.post("/sim/faults", `{"kind": "drop"}`); got.status != 404 {
		t.Errorf("without the flag: %d %s", got.status, got.body)
	}
	r := start(t, fast(func(c *Config) { c.FaultRoute = true }))
	if got := r.post("/sim/faults", `{"kind": "nonsense"}`); got.status != 400 {
		t.Errorf("unknown fault: %d %s", got.status, got.body)
	}
	if got := r.post("/sim/faults", `{"kind": "status", "status": 429, "path": "/v1/completions"}`); got.status != 204 {
		t.Errorf("inject: %d %s", got.status, got.body)
	}
	if got := r.post("/v1/completions", `{"prompt": "x"}`); got.status != 429 {
		t.Errorf("injected: %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodDelete, "/sim/faults", ""); got.status != 204 {
		t.Errorf("heal: %d %s", got.status, got.body)
	}
	if got := r.post("/sim/faults", `{"kind": "trickle", "every": "1us", "requests": 1}`); got.status != 204 {
		t.Errorf("inject: %d %s", got.status, got.body)
	}
	if got := r.do(http.MethodPost, "/sim/restart?down=0s", ""); got.status != 204 {
		t.Errorf("restart: %d %s", got.status, got.body)
	}
	r.completion(`{"prompt": "x"}`)
}

func TestDisconnectAborts(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.Speed = 0.001 })) // the request would take minutes
	ctx, leave := context.WithCancel(t.Context())
	var left sync.WaitGroup
	for range 3 {
		left.Go(func() { _, _ = r.try(ctx, `{"prompt": "x", "max_tokens": 30, "ignore_eos": true}`) })
	}
	r.until(func(f scraped) bool {
		return f.value(t, "num_requests_running")+f.value(t, "num_requests_waiting") == 3
	})
	leave()
	left.Wait()
	r.until(func(f scraped) bool {
		return f.value(t, "num_requests_running") == 0 && f.value(t, "num_requests_waiting") == 0 &&
			f.value(t, "kv_cache_usage_perc") == 0 && f.value(t, "request_success_total", "finished_reason", "abort") == 3
	})
}

// until scrapes until the metrics are as they should be; the test's deadline is the bound.
func (r *rig) until(is func(scraped) bool) {
	r.t.Helper()
	for !is(r.scrape()) {
		if r.t.Context().Err() != nil {
			r.t.Fatal("the metrics never got there")
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	engine, err := New(fast())
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- engine.Serve(ctx, l) }()
	r := &rig{t, engine, "http://" + l.Addr().String()}
	if got := r.get("/health"); got.status != 200 || got.body != "" {
		t.Errorf("health: %d %q", got.status, got.body)
	}
	r.completion(`{"prompt": "x"}`)
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
}
