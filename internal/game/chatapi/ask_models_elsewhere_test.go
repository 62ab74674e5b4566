package chatapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// said is one answer of a fake API. A status of 0 breaks the connection, and -1 never answers.
type said struct {
	status int
	body   string
	after  string // Retry-After, in seconds
}

const base = "https://api.example.com/v1"

func content(text, finish string) said {
	body, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{
		"message": map[string]any{"content": text}, "finish_reason": finish}}})
	return said{status: http.StatusOK, body: string(body)}
}

// fake is a chat API that answers one thing after the other, and the last one again and again. Its time is a bubble's.
type fake struct {
	mu    sync.Mutex
	say   []said
	began time.Time
	at    []time.Duration // of each call
	seen  []http.Header
	asked []map[string]any
	key   string
}

func (f *fake) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.String() != base+"/chat/completions" {
		return nil, fmt.Errorf("asked at %s", req.URL)
	}
	var asked map[string]any
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		return nil, err
	}
	f.mu.Lock()
	next := f.say[min(len(f.asked), len(f.say)-1)]
	f.asked, f.seen, f.at = append(f.asked, asked), append(f.seen, req.Header), append(f.at, time.Since(f.began))
	f.mu.Unlock()
	switch next.status {
	case 0:
		return nil, errors.New("connect: connection refused by 10.0.0.9")
	case -1:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	w := httptest.NewRecorder()
	if next.after != "" {
		w.Header().Set("Retry-After", next.after)
	}
	if next.status == http.StatusFound {
		w.Header().Set("Location", "http://10.0.0.9/admin")
	}
	w.WriteHeader(next.status)
	w.WriteString(next.body)
	return w.Result(), nil
}

func (f *fake) DialNamed(string) (func(string, string, syscall.RawConn) error, error) {
	return nil, nil
}
func (f *fake) NamedKey(string) string { return f.key }
func (f *fake) TLS(string) *tls.Config { return nil }

// Complete is the fleet's.
func (f *fake) Complete(context.Context, rollout.Request) (rollout.Completion, error) {
	return rollout.Completion{Engine: "gpu-0"}, nil
}

// models asks f, and writes its log to log.
func (f *fake) models(t *testing.T, log *bytes.Buffer) *Models {
	t.Helper()
	f.began = time.Now()
	m := New(f, f, slog.New(slog.NewTextHandler(log, nil)))
	a, err := m.api(base)
	if err != nil {
		t.Fatal(err)
	}
	a.HTTP.Transport = f
	return m
}

func request() rollout.Request {
	return rollout.Request{URL: base + "/", Model: "gpt-x", Prompt: "your move", Timeout: rollout.Duration(time.Minute),
		Sampling: rollout.Sampling{Temperature: 0.3, MaxTokens: 64}, Stop: []string{"\n\n"},
		Constraint: rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{"a1"}}}
}

// Each row is what an API says, and what comes of it: after how many calls, when the last was made, and by which words.
func TestAnswersAndFailures(t *testing.T) {
	t.Parallel()
	const secret = "sk-secret"
	good := content("b2", "stop")
	for _, tt := range []struct {
		name   string
		say    []said
		code   rollout.Code
		kind   rollout.FailureKind
		calls  int           // 0: as many as 20 s have room for
		last   time.Duration // the last call, at the earliest
		text   string        // of the answer, or in the error
		noKey  bool
		logged string
	}{
		{name: "it answers", say: []said{good}, calls: 1, text: "b2"},
		{name: "nothing but words", say: []said{content("I cannot do that.", "content_filter")}, calls: 1,
			text: "I cannot do that."},
		{name: "too much to do, then not", say: []said{{status: 429}, {status: 503}, good}, calls: 3, text: "b2"},
		{name: "it asks for patience", say: []said{{status: 429, after: "7"}, good}, calls: 2, last: 7 * time.Second,
			text: "b2"},
		{name: "for more than a game waits", say: []said{{status: 429, after: "300", body: `{"error":{"message":"slow"}}`}},
			code: rollout.CodePolicyUnavailable, calls: 1, text: `status 429: "slow"`},
		{name: "it is not there", say: []said{{}}, code: rollout.CodePolicyUnavailable, last: 8 * time.Second,
			text: "no connection", logged: "10.0.0.9"},
		{name: "it is not there for a moment", say: []said{{}, good}, calls: 2, text: "b2", logged: "answers again"},
		{name: "it is broken", say: []said{{status: 500, body: "<html>"}}, code: rollout.CodePolicyUnavailable,
			last: 8 * time.Second, text: "status 500"},
		{name: "it says nothing", say: []said{{status: -1}}, code: rollout.CodeTimeout, calls: 1,
			text: "no answer in 1m0s (timeouts.completion)"},
		{name: "the key is wrong", say: []said{{status: 401, body: `{"error":{"message":"bad key sk-s***t"}}`}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1,
			text: "refuses the key that engine_urls.keys_file"},
		{name: "no key", say: []said{{status: 401}}, noKey: true,
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: "no key is meant for it: give it a line"},
		{name: "an error with the key in it", say: []said{{status: 400, body: `{"error":{"message":"got sk-secret"}}`}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: `status 400: "got ..."`},
		{name: "no such model", say: []said{{status: 404, body: `{"error":{"message":"no gpt-x"}}`}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: `"no gpt-x"; is url the base`},
		{name: "it sends elsewhere", say: []said{{status: 302}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: "status 302"},
		{name: "an error that is none by its status", say: []said{{status: 200, body: `{"error":{"message":"no credit"}}`}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: `"no credit"`},
		{name: "something else is there", say: []said{{status: 200, body: "<html>"}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: "no chat completion"},
		{name: "it never ends", say: []said{{status: 200, body: strings.Repeat(" ", 1<<20+1)}},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: "more than 1048576 bytes"},
		{name: "it only thought", say: []said{content("", "length")},
			code: rollout.CodePolicyRefuses, kind: rollout.Permanent, calls: 1, text: "raise the policy's max_tokens"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, log := &fake{say: tt.say, key: secret}, &bytes.Buffer{}
				if tt.noKey {
					f.key = ""
				}
				c, err := f.models(t, log).Complete(t.Context(), request())
				if rollout.CodeOf(err) != tt.code || err != nil && (rollout.KindOf(err) == rollout.Permanent) !=
					(tt.kind == rollout.Permanent) {
					t.Fatalf("got %q, %v, want %q, %s", rollout.CodeOf(err), err, tt.code, tt.kind)
				}
				got := c.Text
				if err != nil {
					got = err.Error()
					if !strings.Contains(got, "gpt-x at "+base) {
						t.Errorf("%q does not name model and URL", got)
					}
				}
				if !strings.Contains(got, tt.text) {
					t.Errorf("got %q, want %q", got, tt.text)
				}
				calls, last := len(f.at), f.at[len(f.at)-1]
				if tt.calls > 0 && calls != tt.calls || tt.calls == 0 && (calls < 4 || calls > 9) || last < tt.last {
					t.Errorf("%d calls, at %v", calls, f.at)
				}
				if !strings.Contains(log.String(), tt.logged) {
					t.Errorf("logged %q, want %q", log, tt.logged)
				}
				if out := got + log.String(); strings.Contains(out, secret) || strings.Contains(got, "10.0.0.9") {
					t.Errorf("it tells a key, or what is in the network: %s", out)
				}
			})
		})
	}
}

// A call has the prompt as a user's message, or the messages, the length and the key: nothing that only engines know.
func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tooOld := said{status: 400, body: `{"error":{"message":"Unsupported: 'max_tokens'. Use 'max_completion_tokens'."}}`}
		f := &fake{key: "sk-1", say: []said{content("a1", "stop"), tooOld, content("a2", "length")}}
		m := f.models(t, &bytes.Buffer{})
		chat := request()
		chat.Messages = []rollout.Message{{Role: "system", Content: "be brief"}, {Role: "user", Content: "go"}}
		var ends []string
		for i, req := range []rollout.Request{request(), chat, chat} {
			c, err := m.Complete(t.Context(), req)
			if err != nil {
				t.Fatal(i, err)
			}
			ends = append(ends, c.FinishReason)
		}
		if got := fmt.Sprint(ends); got != "[stop length length]" {
			t.Errorf("answers ended by %s", got)
		}
		asked, err := json.Marshal(f.asked)
		const plain = `{"max_tokens":64,"messages":[{"content":"your move","role":"user"}],"model":"gpt-x"}`
		const own = `"messages":[{"content":"be brief","role":"system"},{"content":"go","role":"user"}],"model":"gpt-x"}`
		want := "[" + plain + `,{"max_tokens":64,` + own + `,{"max_completion_tokens":64,` + own +
			`,{"max_completion_tokens":64,` + own + "]"
		if err != nil || string(asked) != want {
			t.Errorf("sent\n%s\nwant\n%s", asked, want)
		}
		if got := f.seen[0].Get("Authorization"); got != "Bearer sk-1" {
			t.Errorf("authorised by %q", got)
		}
	})
}

// What names no URL goes to the fleet, and tools go nowhere.
func TestFleetAndTools(t *testing.T) {
	t.Parallel()
	f := &fake{}
	m := f.models(t, &bytes.Buffer{})
	if c, err := m.Complete(t.Context(), rollout.Request{Model: "m"}); err != nil || c.Engine != "gpu-0" {
		t.Errorf("%+v, %v: not the fleet's answer", c, err)
	}
	req := request()
	req.Tools = json.RawMessage(`[{}]`)
	if _, err := m.Complete(t.Context(), req); rollout.CodeOf(err) != rollout.CodePolicyRefuses || len(f.asked) > 0 {
		t.Errorf("tools: %v, %d calls", err, len(f.asked))
	}
}

// One API has so many calls at a time of one process, and the waits for them are no execution.
func TestCallsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &slow{}
		m := f.models(t, &bytes.Buffer{})
		a, _ := m.api(base)
		a.HTTP.Transport = f
		var wg sync.WaitGroup
		var waited atomic.Int64
		for range 2 * mostCalls {
			wg.Go(func() {
				c, err := m.Complete(t.Context(), request())
				if err != nil || c.Timing.ExecSec != 1 {
					t.Errorf("%v after %+v", err, c.Timing)
				}
				if c.Timing.QueueSec == 1 {
					waited.Add(1)
				}
			})
		}
		wg.Wait()
		if f.most.Load() != mostCalls || waited.Load() != mostCalls {
			t.Errorf("%d calls at a time, want %d; %d waited a second", f.most.Load(), mostCalls, waited.Load())
		}
	})
}

// slow answers after a second.
type slow struct {
	fake
	now, most atomic.Int64
}

func (s *slow) RoundTrip(*http.Request) (*http.Response, error) {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	time.Sleep(time.Second)
	w := httptest.NewRecorder()
	w.WriteString(content("b2", "stop").body)
	return w.Result(), nil
}

// Nothing is sent to a URL that the configuration refuses, nor to an address that its host turns out to have.
func TestRefusedAddresses(t *testing.T) {
	t.Parallel()
	reached := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer server.Close()
	for name, g := range map[string]guard{
		"its URL":     {url: errors.New("engine_urls.deny names it")},
		"its address": {address: errors.New("denied 127.0.0.1")},
	} {
		req := request()
		req.URL = server.URL
		_, err := New(&fake{}, g, slog.New(slog.DiscardHandler)).Complete(t.Context(), req)
		if rollout.CodeOf(err) != rollout.CodeEngineAddress || rollout.KindOf(err) != rollout.Permanent ||
			!strings.Contains(err.Error(), "engine_urls") || reached.Load() {
			t.Errorf("%s: %v, reached %t", name, err, reached.Load())
		}
	}
}

// guard refuses.
type guard struct{ url, address error }

func (g guard) DialNamed(string) (func(string, string, syscall.RawConn) error, error) {
	return func(string, string, syscall.RawConn) error { return g.address }, g.url
}
func (guard) NamedKey(string) string { return "" }
func (guard) TLS(string) *tls.Config { return nil }
