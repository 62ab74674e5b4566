package onevllm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/face/onevllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runspec"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/loranames"
)

const (
	run  = rollout.RunName("mine")
	base = "base-model"
)

// world is a run with one engine, of which a test says what it answers.
type world struct {
	t      *testing.T
	url    string // of the virtual vLLM
	engine *httptest.Server
	answer http.HandlerFunc

	mu       sync.Mutex
	state    enginestate.EngineState
	policies []runstatus.Policy
	refuses  error // what is published next
	calls    []rollout.Request
	using    int // calls at engines
}

func newWorld(t *testing.T, answer http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, answer: answer, state: enginestate.EngineReady}
	w.engine = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.answer(rw, r) }))
	t.Cleanup(w.engine.Close)
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	h := onevllm.New(onevllm.Deps{Fleet: w, Names: loranames.New(rdb, "test"), Log: slog.New(slog.DiscardHandler),
		Status: w.status, Publish: w.publish})
	front := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.Serve(rw, r, run, r.URL.Path)
	}))
	t.Cleanup(func() {
		front.Close() // which waits for calls to end
		if n := h.Kept(); n > 0 {
			t.Errorf("%d things are kept of calls that have ended", n)
		}
	})
	w.url = front.URL
	return w
}

func (w *world) status(_ context.Context, name rollout.RunName) (runstatus.RunStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name != run {
		return runstatus.RunStatus{}, rollout.Refuse(rollout.NoSuchRun, "there is no run %s", name)
	}
	return runstatus.RunStatus{State: runstatus.RunRunning, Policies: w.policies,
		PolicyVersion: rollout.PolicyVersion(len(w.policies)),
		Spec:          runspec.Spec{Name: run, Model: base, Buffer: runspec.BufferSpec{MaxStaleness: 2}}}, nil
}

func (w *world) publish(_ context.Context, name rollout.RunName, v rollout.PolicyVersion, path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuses; err != nil {
		w.refuses = nil
		return err
	}
	if want := rollout.PolicyVersion(len(w.policies)) + 1; v != want {
		return rollout.Refuse(rollout.OutOfOrder, "the next version is %d", want)
	}
	w.policies = append(w.policies, runstatus.Policy{Version: v, Adapter: v.Adapter(name), Path: path,
		State: runstatus.PolicyServing})
	return nil
}

func (w *world) Engines(context.Context) ([]enginestate.Engine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []enginestate.Engine{{ID: "e1", URL: w.engine.URL, State: w.state, Models: []string{base}, Version: "0.32.0",
		AdapterSlots: 6}}, nil
}

func (w *world) Client(e enginestate.Engine) (*vllm.Client, error) {
	return vllm.New(vllm.Config{BaseURL: e.URL})
}

func (w *world) Relay(ctx context.Context, req rollout.Request, call *vllm.Relayed) error {
	w.mu.Lock()
	w.calls = append(w.calls, req)
	w.using++
	w.mu.Unlock()
	client, err := vllm.New(vllm.Config{BaseURL: w.engine.URL})
	if err == nil {
		_, err = client.Relay(ctx, call)
	}
	w.mu.Lock()
	w.using--
	w.mu.Unlock()
	return err
}

func (w *world) Uses(context.Context, rollout.RunName, string) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.using, nil
}

type reply struct {
	status int
	header http.Header
	body   string
}

// ask asks the virtual vLLM.
func (w *world) ask(ctx context.Context, method, path, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

// want asks, and expects a status and words.
func (w *world) want(status int, method, path, body string, words ...string) reply {
	w.t.Helper()
	got, err := w.ask(w.t.Context(), method, path, body)
	if err != nil || got.status != status {
		w.t.Fatalf("%s %s: %d %s %v, want %d", method, path, got.status, got.body, err, status)
	}
	for _, word := range words {
		if !strings.Contains(got.body, word) {
			w.t.Errorf("%s %s: %s does not say %q", method, path, got.body, word)
		}
	}
	return got
}

func (w *world) load(name, path string) reply {
	w.t.Helper()
	return w.want(http.StatusOK, "POST", "/v1/load_lora_adapter",
		fmt.Sprintf(`{"lora_name":%q,"lora_path":%q}`, name, path), "added successfully")
}

// echo answers with the model that it was asked for, and with what it was sent as text.
func echo(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var sent struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &sent)
	if sent.Stream {
		for i := range 3 {
			fmt.Fprintf(rw, `data: {"model":%q,"choices":[{"index":0,"text":"%d","finish_reason":null}]}`+"\n\n", sent.Model, i)
		}
		fmt.Fprintf(rw, `data: {"model":%q,"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":3}}`+"\n\n", sent.Model)
		fmt.Fprint(rw, "data: [DONE]\n\n")
		return
	}
	text, _ := json.Marshal(string(body))
	fmt.Fprintf(rw, `{"id":"cmpl-%s","new":[1.50],"model":%q,"choices":[{"index":0,"text":%s,"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":4,"completion_tokens":3}}`, r.Header.Get("X-Request-Id"), sent.Model, text)
}

// TestPassesOn: what a client sends reaches the engine as it was sent, unknown fields included, under the engines' name
// of the model and with a seed; the answer comes back under the client's name and is otherwise as it was.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, echo)
	w.load("trl-policy-v1", "/a/1")
	for _, tt := range []struct {
		name, path, body string
		sent, answered   []string
	}{
		{"the base model", "/v1/completions", `{"model":"base-model","prompt":[1,2],"seed":7,"next_year":{"a":null}}`,
			[]string{`"model":"base-model"`, `"seed":7`, `"next_year":{"a":null}`, `"prompt":[1,2]`}, []string{`"base-model"`}},
		{"no model is the base model", "/v1/completions", `{"prompt":"x"}`, []string{`"model":"base-model"`},
			[]string{`"model":"base-model"`, `"new":[1.50]`}},
		{"an adapter", "/v1/chat/completions", `{"model":"trl-policy-v1","messages":[]}`, []string{`"model":"mine-v1"`,
			`"seed":`}, []string{`"model":"trl-policy-v1"`}},
		{"by the engines' name", "/v1/completions", `{"model":"mine-v1","prompt":"x"}`, []string{`"model":"mine-v1"`},
			[]string{`"model":"mine-v1"`}},
		{"tokens", "/inference/v1/generate", `{"model":"trl-policy-v1","token_ids":[5],"sampling_params":{"n":2}}`,
			[]string{`"sampling_params":{"n":2,"seed":`}, []string{`"model":"trl-policy-v1"`}},
	} {
		got := w.want(http.StatusOK, "POST", tt.path, tt.body, tt.answered...)
		var answer struct{ Choices []struct{ Text string } }
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
			t.Fatal(err)
		}
		for _, word := range tt.sent {
			if !strings.Contains(answer.Choices[0].Text, word) {
				t.Errorf("%s: the engine was sent %s, without %s", tt.name, answer.Choices[0].Text, word)
			}
		}
	}
}

// TestStream: events come as the engine sends them, and the usage only to who wants it.
func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, echo)
	for _, tt := range []struct {
		options string
		events  int
	}{{"", 3}, {`,"stream_options":{"include_usage":true}`, 4}} {
		got := w.want(http.StatusOK, "POST", "/v1/completions", `{"prompt":"x","stream":true`+tt.options+`}`)
		events := strings.Split(strings.TrimSpace(got.body), "\n\n")
		if len(events) != tt.events+1 || events[len(events)-1] != "data: [DONE]" ||
			got.header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("%q: %q", tt.options, events)
		}
	}
}

// TestErrorInAnswer: an answer whose error is null is one; any other is tried elsewhere, and then a fault.
func TestErrorInAnswer(t *testing.T) {
	t.Parallel()
	for given, status := range map[string]int{"null": http.StatusOK, `{"message":"no"}`: http.StatusServiceUnavailable,
		`""`: http.StatusServiceUnavailable} {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(rw, `{"model":"base-model","error":%s,"choices":[{"text":"a"}]}`, given)
		})
		w.want(status, "POST", "/v1/completions", `{"prompt":"x"}`, `"error":`)
	}
}

// TestBrokenStream: a stream that breaks off ends with an error in the stream, and one that never began with a status.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		begun  string
		status int
	}{{"", http.StatusServiceUnavailable},
		{`data: {"model":"base-model","choices":[{"text":"a"}]}` + "\n\n", http.StatusOK}} {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, tt.begun) })
		got := w.want(tt.status, "POST", "/v1/completions", `{"prompt":"x","stream":true}`, `"error"`)
		if tt.begun != "" && !strings.HasSuffix(got.body, "data: [DONE]\n\n") {
			t.Errorf("the stream has no end: %q", got.body)
		}
	}
}

// TestBadCalls: everything that is wrong is told in vLLM's form.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	const tooLong = `{"error":{"message":"This model's maximum context length is 8 tokens.","type":"BadRequestError",` +
		`"param":null,"code":400}}`
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/inference/v1/generate" {
			rw.WriteHeader(http.StatusNotFound)
			fmt.Fprint(rw, `{"detail":"Not Found"}`)
			return
		}
		rw.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(rw, tooLong)
	})
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		word                     string
	}{
		{"unknown model", "POST", "/v1/completions", `{"model":"x","prompt":"a"}`, 404, "The model `x` does not exist."},
		{"an adapter that never was", "POST", "/v1/completions", `{"model":"mine-v9","prompt":"a"}`, 404, "NotFoundError"},
		{"no JSON", "POST", "/v1/completions", `{"model"`, 400, "BadRequestError"},
		{"a list", "POST", "/v1/chat/completions", `[]`, 400, "BadRequestError"},
		{"a model that is no text", "POST", "/v1/completions", `{"model":7}`, 400, "model: a value of the wrong type"},
		{"the engine's own refusal", "POST", "/v1/completions", `{"prompt":"a"}`, 400, tooLong},
		{"a route that engines lack", "POST", "/inference/v1/generate", `{"token_ids":[1]}`, 404, `{"detail":"Not Found"}`},
		{"no such route", "GET", "/v1/embeddings", "", 404, `{"detail":"Not Found"}`},
		{"wrong method", "GET", "/v1/completions", "", 405, `"detail"`},
		{"a load without a path", "POST", "/v1/load_lora_adapter", `{"lora_name":"a"}`, 400, "must be provided"},
		{"a load of the base model", "POST", "/v1/load_lora_adapter", `{"lora_name":"base-model","lora_path":"/a"}`, 400,
			"InvalidUserInput"},
		{"an unload of nothing", "POST", "/v1/unload_lora_adapter", `{"lora_name":"a"}`, 404, "cannot be found"},
		{"an unknown mode", "POST", "/pause?mode=stop", "", 400, "abort, wait or keep"},
	} {
		t.Log(tt.name)
		w.want(tt.status, tt.method, tt.path, tt.body, tt.word)
	}
}

// TestNoEngine: while no engine is ready the client is told to ask again.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, echo)
	w.want(http.StatusOK, "GET", "/health", "")
	w.mu.Lock()
	w.state = enginestate.EngineLost
	w.mu.Unlock()
	for _, path := range []string{"/health", "/v1/completions"} {
		method := map[bool]string{true: "GET", false: "POST"}[path == "/health"]
		got := w.want(http.StatusServiceUnavailable, method, path, `{"prompt":"a"}`, "no engine that serves base-model is ready")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
}

// TestNames: a name stands for what was loaded under it last; a second load is refused unless it is in place; what is
// unloaded is unknown.
func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, echo)
	w.load("a", "/a/1")
	w.want(http.StatusBadRequest, "POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/a/1"}`,
		"has already been loaded")
	w.want(http.StatusOK, "POST", "/v1/completions", `{"model":"a","prompt":"x"}`, "mine-v1")
	w.want(http.StatusOK, "POST", "/v1/load_lora_adapter", `{"lora_name":"a","lora_path":"/a/2","load_inplace":true}`)
	w.want(http.StatusOK, "POST", "/v1/completions", `{"model":"a","prompt":"x"}`, "mine-v2")
	w.want(http.StatusOK, "POST", "/load_lora_adapter", `{"lora_name":"a","lora_path":"/a/3"}`, `"ok"`)
	w.want(http.StatusOK, "POST", "/v1/completions", `{"model":"a","prompt":"x"}`, "mine-v3")
	w.mu.Lock()
	w.refuses = rollout.Refuse(rollout.OutOfOrder, "another server was faster")
	w.mu.Unlock()
	w.load("b", "/a/4")
	w.want(http.StatusOK, "GET", "/v1/models", "", `"id":"a"`, `"root":"/a/3"`, `"parent":"base-model"`, `"id":"b"`)
	w.want(http.StatusOK, "POST", "/v1/unload_lora_adapter", `{"lora_name":"a"}`, "removed successfully")
	w.want(http.StatusNotFound, "POST", "/v1/completions", `{"model":"a","prompt":"x"}`)
	for _, tt := range []struct {
		path, why string
		status    int
	}{
		{"/c", "its rank is too high", http.StatusBadRequest},
		{"/c", "engine e1: No adapter found for /c", http.StatusNotFound},
		{"c", "it is not absolute", http.StatusNotFound},
	} {
		w.mu.Lock()
		w.refuses = rollout.Refuse(rollout.Invalid, "%s", tt.why)
		w.mu.Unlock()
		w.want(tt.status, "POST", "/v1/load_lora_adapter", `{"lora_name":"c","lora_path":"`+tt.path+`"}`, tt.why)
	}
	w.want(http.StatusNotFound, "POST", "/v1/completions", `{"model":"c","prompt":"x"}`)
}

// TestDescribesItself: what trainers look for at their start.
func TestDescribesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(rw, `{"data":[{"id":"base-model","root":"/weights","max_model_len":4096}]}`)
		case "/metrics":
			fmt.Fprint(rw, "vllm:num_requests_running{engine=\"0\"} 3\nvllm:prompt_tokens_total{engine=\"0\"} 70\n"+
				"vllm:request_success_total{finished_reason=\"stop\"} 2\n")
		case "/server_info":
			fmt.Fprint(rw, `{"vllm_config":{"model_config":{"dtype":"torch.bfloat16"},"parallel_config":{"data_parallel_size":8}}}`)
		}
	})
	w.want(http.StatusOK, "GET", "/version", "", `"0.32.0"`)
	w.want(http.StatusOK, "GET", "/v1/models", "", `"max_model_len":4096`, `"root":"/weights"`)
	w.want(http.StatusOK, "GET", "/server_info?config_format=json", "", `"dtype":"torch.bfloat16"`,
		`"data_parallel_size":1`, `"max_loras":6`)
	w.want(http.StatusOK, "GET", "/metrics", "", `vllm:num_requests_running{engine="0",model_name="base-model"} 3`,
		`vllm:prompt_tokens_total{engine="0",model_name="base-model"} 70`, `finished_reason="stop"} 2`)
}

// gated answers when it is let.
func gated(arrived chan<- string, let <-chan struct{}) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(rw, `{"data":[]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		arrived <- string(body)
		select {
		case <-let:
			echo(rw, r)
		case <-r.Context().Done():
			arrived <- "left"
		}
	}
}

// TestUnloadWaits: an adapter is unloaded when the last call of it has ended, which is answered by it.
func TestUnloadWaits(t *testing.T) {
	t.Parallel()
	arrived, let := make(chan string, 9), make(chan struct{})
	w := newWorld(t, gated(arrived, let))
	w.load("a", "/a/1")
	answered, unloaded := make(chan reply, 1), make(chan reply, 1)
	go func() {
		got, _ := w.ask(t.Context(), "POST", "/v1/completions", `{"model":"a","prompt":"x"}`)
		answered <- got
	}()
	<-arrived
	go func() {
		got, _ := w.ask(t.Context(), "POST", "/v1/unload_lora_adapter", `{"lora_name":"a"}`)
		unloaded <- got
	}()
	for strings.Contains(w.want(http.StatusOK, "GET", "/v1/models", "").body, `"id":"a"`) {
		time.Sleep(time.Millisecond)
	}
	select {
	case got := <-unloaded:
		t.Fatalf("unloaded while a call was in flight: %+v", got)
	case <-time.After(time.Second / 4):
	}
	close(let)
	if got := <-answered; got.status != http.StatusOK || !strings.Contains(got.body, "mine-v1") {
		t.Errorf("the call: %+v", got)
	}
	if got := <-unloaded; got.status != http.StatusOK {
		t.Errorf("the unload: %+v", got)
	}
}

// TestClientLeaves: a client that leaves takes its call from the engine.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 9)
	w := newWorld(t, gated(arrived, nil))
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.ask(ctx, "POST", "/v1/completions", `{"prompt":"x"}`)
		ended <- err
	}()
	<-arrived
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := <-arrived; got != "left" {
		t.Errorf("the engine heard %q", got)
	}
}

// TestPause: calls that come while the run is paused wait; those at engines end by themselves, or by the pause.
func TestPause(t *testing.T) {
	t.Parallel()
	arrived, let := make(chan string, 9), make(chan struct{})
	w := newWorld(t, gated(arrived, let))
	call := func() chan reply {
		answered := make(chan reply, 1)
		go func() {
			got, _ := w.ask(t.Context(), "POST", "/v1/completions", `{"prompt":"x"}`)
			answered <- got
		}()
		return answered
	}
	first := call()
	<-arrived
	w.want(http.StatusOK, "POST", "/pause?mode=keep", "", "paused")
	w.want(http.StatusOK, "GET", "/is_paused", "", "true")
	let <- struct{}{}
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("a call that was at an engine: %+v", got)
	}
	held := call()
	w.load("a", "/a/1") // as trainers do while they hold the calls
	select {
	case <-arrived:
		t.Fatal("a call was let through")
	case <-held:
		t.Fatal("a call was answered")
	case <-time.After(time.Second / 4):
	}
	w.want(http.StatusOK, "POST", "/resume", "", "resumed")
	<-arrived
	w.want(http.StatusOK, "POST", "/pause", "", "paused") // by abort
	if got := <-held; got.status != http.StatusOK || !strings.Contains(got.body, `"finish_reason":"abort"`) {
		t.Errorf("a call that was aborted: %+v", got)
	}
}

// TestTokensAreNamedBothWays: clients of vLLM 0.32 read token_id, and others token.
func TestTokensAreNamedBothWays(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, said, want string }{
		{"of 0.32", `{"token_id":9,"logprob":-0.1250,"rank":1}`, `{"logprob":-0.1250,"rank":1,"token":"token_id:9","token_id":9}`},
		{"before", `{"token":"token_id:9","logprob":-1}`, `{"logprob":-1,"token":"token_id:9","token_id":9}`},
		{"a text", `{"token":"a","logprob":-1}`, `{"logprob":-1,"token":"a"}`},
		{"alternatives", `{"token_id":1,"top_logprobs":[{"token_id":2}]}`,
			`{"token":"token_id:1","token_id":1,"top_logprobs":[{"token":"token_id:2","token_id":2}]}`},
	} {
		w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(rw, `{"request_id":"r","choices":[{"token_ids":[9],"logprobs":{"content":[%s]}}]}`, tt.said)
		})
		w.want(http.StatusOK, "POST", "/inference/v1/generate", `{"token_ids":[1]}`, `"content":[`+tt.want+`]`)
	}
}
