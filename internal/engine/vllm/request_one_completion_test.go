package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// engine serves one handler and returns a client of it.
func engine(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c, err := New(Config{BaseURL: srv.URL + "/v1/", Key: func() string { return "secret" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// answering is an engine that says the same whatever it is asked.
func answering(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func request() rollout.Request {
	return rollout.Request{
		ID: "demo/12/3/FRANCE/S1901M/1", Model: "demo-v3", Prompt: "orders <for> FRANCE:", Seed: 1<<53 + 1,
		Sampling: rollout.Sampling{MaxTokens: 120, TopP: 1},
		Stop:     []string{"\n\n"},
	}
}

const goodAnswer = `{"id":"cmpl-1","object":"text_completion","created":1,"model":"demo-v3","choices":[{"index":0,"text":"A PAR H",
"logprobs":{"text_offset":[0,1],"token_logprobs":[-0.25,-9999.0],"tokens":["A","B"],"top_logprobs":[{"A":-0.25},{"B":-9999.0}]},
"finish_reason":"stop","stop_reason":null,"token_ids":[32,151645],"prompt_token_ids":[1,2,3]}],
"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":2}}}`

func TestCompleteReadsWhatGoOpenAIDrops(t *testing.T) {
	t.Parallel()
	got, err := engine(t, answering(200, goodAnswer)).Complete(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	want := rollout.Completion{
		Text: "A PAR H", PromptTokenIDs: []int32{1, 2, 3}, TokenIDs: []int32{32, 151645},
		Logprobs: []float32{-0.25, -9999}, FinishReason: "stop", Model: "demo-v3", CachedTokens: 2,
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestCompleteWithoutPromptDetails(t *testing.T) {
	t.Parallel()
	body := strings.Replace(goodAnswer, `,"prompt_tokens_details":{"cached_tokens":2}`, "", 1)
	got, err := engine(t, answering(200, body)).Complete(t.Context(), request())
	if err != nil || got.CachedTokens != -1 {
		t.Errorf("got %d cached tokens, %v; want -1: the engine did not say", got.CachedTokens, err)
	}
}

// TestCompleteSaysEverything holds the body on the wire, field by field.
func TestCompleteSaysEverything(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*rollout.Request)
		want   map[string]string // JSON by field; "" means absent
	}{
		{"greedy", func(*rollout.Request) {}, map[string]string{
			"model": `"demo-v3"`, "prompt": `"orders <for> FRANCE:"`, "max_tokens": `120`, "seed": `9007199254740993`,
			"stop": `["\n\n"]`, "temperature": `0`, "top_p": `1`, "top_k": `-1`, "min_p": `0`, "repetition_penalty": `1`,
			"logprobs": `0`, "return_token_ids": `true`, "stream": `false`, "structured_outputs": "", "n": "",
		}},
		{"exact floats", func(r *rollout.Request) {
			r.Sampling = rollout.Sampling{Temperature: 0.8, TopP: 0.95, TopK: 20, MaxTokens: 2}
		}, map[string]string{"temperature": `0.8`, "top_p": `0.95`, "top_k": `20`, "max_tokens": `2`}},
		{"regex", func(r *rollout.Request) {
			r.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: `A|\d<`}
		}, map[string]string{"structured_outputs": `{"regex":"A|\\d<"}`}},
		{"choice", func(r *rollout.Request) {
			r.Constraint = rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: []string{"a", "b"}}
		}, map[string]string{"structured_outputs": `{"choice":["a","b"]}`}},
		{"grammar", func(r *rollout.Request) {
			r.Constraint = rollout.Constraint{Kind: rollout.GrammarConstraint, Pattern: `root ::= "a"`}
		}, map[string]string{"structured_outputs": `{"grammar":"root ::= \"a\""}`}},
		{"empty prompt", func(r *rollout.Request) { r.Prompt = "" }, map[string]string{"prompt": `""`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			var header http.Header
			c := engine(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				header = r.Header
				answering(200, goodAnswer)(w, r)
			})
			req := request()
			tt.change(&req)
			if _, err := c.Complete(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			got := fieldsOnce(t, body)
			for field, want := range tt.want {
				if string(compact(t, got[field])) != want {
					t.Errorf("%s: got %s, want %s", field, got[field], want)
				}
			}
			if id, auth := header.Get("X-Request-Id"), header.Get("Authorization"); id != req.ID || auth != "Bearer secret" {
				t.Errorf("X-Request-Id %q, Authorization %q", id, auth)
			}
			if _, sent := header["X-Idempotency-Key"]; sent {
				t.Error("X-Idempotency-Key went out on the wire")
			}
		})
	}
}

// fieldsOnce decodes an object and fails on a key said twice.
func fieldsOnce(t *testing.T, body []byte) map[string]json.RawMessage {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(string(body)))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if _, twice := out[key.(string)]; twice {
			t.Errorf("field %v is there twice in %s", key, body)
		}
		out[key.(string)] = v
	}
	return out
}

// compact undoes json.Marshal's escaping of HTML.
func compact(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	if raw == nil {
		return nil
	}
	s := string(raw)
	for from, to := range map[string]string{`\u003c`: "<", `\u003e`: ">"} {
		s = strings.ReplaceAll(s, from, to)
	}
	return []byte(s)
}

func TestCompleteRefusesBadAnswers(t *testing.T) {
	t.Parallel()
	swap := func(from, to string) string {
		if !strings.Contains(goodAnswer, from) {
			t.Fatalf("%q is not in the good answer", from)
		}
		return strings.Replace(goodAnswer, from, to, 1)
	}
	for _, tt := range []struct {
		name   string
		status int
		body   string
		code   rollout.Code
		kind   rollout.FailureKind
	}{
		{"silent base model", 200, swap(`"model":"demo-v3"`, `"model":"qwen"`), rollout.CodeWrongModel, rollout.Retryable},
		{"aborted by a pause", 200, swap(`"finish_reason":"stop"`, `"finish_reason":"abort"`), rollout.CodeAborted,
			rollout.Retryable},
		{"repetition", 200, swap(`"finish_reason":"stop"`, `"finish_reason":"repetition"`), rollout.CodeBadAnswer,
			rollout.Retryable},
		{"no finish reason", 200, swap(`"finish_reason":"stop"`, `"finish_reason":null`), rollout.CodeBadAnswer,
			rollout.Retryable},
		{"null logprob", 200, swap(`[-0.25,-9999.0]`, `[null,-9999.0]`), rollout.CodeBadAnswer, rollout.Retryable},
		{"positive logprob", 200, swap(`[-0.25,-9999.0]`, `[0.25,-9999.0]`), rollout.CodeBadAnswer, rollout.Retryable},
		{"one logprob short", 200, swap(`[-0.25,-9999.0]`, `[-0.25]`), rollout.CodeBadAnswer, rollout.Retryable},
		{"no token ids", 200, swap(`"token_ids":[32,151645],`, `"token_ids":null,`), rollout.CodeBadAnswer,
			rollout.Retryable},
		{"no prompt token ids", 200, swap(`,"prompt_token_ids":[1,2,3]`, ``), rollout.CodeBadAnswer, rollout.Retryable},
		{"negative token id", 200, swap(`"token_ids":[32,151645]`, `"token_ids":[-1,151645]`), rollout.CodeBadAnswer,
			rollout.Retryable},
		{"negative prompt token id", 200, swap(`"prompt_token_ids":[1,2,3]`, `"prompt_token_ids":[1,-2,3]`),
			rollout.CodeBadAnswer,
			rollout.Retryable},
		{"no choices", 200, `{"model":"demo-v3","choices":[]}`, rollout.CodeBadAnswer, rollout.Retryable},
		{"not JSON", 200, `<html>`, rollout.CodeBadAnswer, rollout.Retryable},
		{"cut JSON", 200, goodAnswer[:200], rollout.CodeBadAnswer, rollout.Retryable},
		{"unknown model", 404, `{"error":{"message":"The model ` + "`demo-v3`" +
			` does not exist.","type":"NotFoundError","param":"model","code":404}}`, rollout.CodeUnknownModel,
			rollout.Retryable},
		{"no such route", 404, `{"detail":"Not Found"}`, rollout.CodeNotAnEngine, rollout.Permanent},
		{"redirect", 302, ``, rollout.CodeNotAnEngine, rollout.Permanent},
		{"prompt too long", 400,
			`{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}}`, rollout.CodeBadRequest, rollout.Permanent},
		{"no API key", 401, `{"error":"Unauthorized"}`, rollout.CodeUnauthorized, rollout.Permanent},
		{"rate limit", 429, `{"error":{"message":"slow down","type":"TooManyRequests","param":null,"code":429}}`,
			rollout.CodeOverloaded,
			rollout.Retryable},
		{"queue full", 503, `{"error":{"message":"queue full","type":"ServiceUnavailable","param":null,"code":503}}`,
			rollout.CodeOverloaded, rollout.Retryable},
		{"scaling", 503, `{"error":"The model is currently scaling. Please try again later."}`, rollout.CodeOverloaded,
			rollout.Retryable},
		{"engine dying", 500,
			`{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`, rollout.CodeEngineDead, rollout.Retryable},
		{"other fault", 500, `Internal Server Error`, rollout.CodeEngineError, rollout.Retryable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := engine(t, answering(tt.status, tt.body)).Complete(t.Context(), request())
			wantFailure(t, err, tt.kind, tt.code)
		})
	}
}

func wantFailure(t *testing.T, err error, kind rollout.FailureKind, code rollout.Code) {
	t.Helper()
	if rollout.CodeOf(err) != code || rollout.KindOf(err) != kind {
		t.Errorf("got %s %s (%v), want %s %s", rollout.KindOf(err), rollout.CodeOf(err), err, kind, code)
	}
}

func TestCompleteRefusesBadRequests(t *testing.T) {
	t.Parallel()
	c := engine(t, func(http.ResponseWriter, *http.Request) { t.Error("the request reached the engine") })
	for name, change := range map[string]func(*rollout.Request){
		"no model":             func(r *rollout.Request) { r.Model = "" },
		"a name of OpenAI's":   func(r *rollout.Request) { r.Model = "gpt-5" },
		"no max tokens":        func(r *rollout.Request) { r.Sampling.MaxTokens = 0 },
		"negative temperature": func(r *rollout.Request) { r.Sampling.Temperature = -1 },
		"top_p above 1":        func(r *rollout.Request) { r.Sampling.TopP = 1.5 },
		"empty regex":          func(r *rollout.Request) { r.Constraint.Kind = rollout.RegexConstraint },
		"unknown constraint":   func(r *rollout.Request) { r.Constraint = rollout.Constraint{Kind: "json", Pattern: "x"} },
	} {
		t.Run(name, func(t *testing.T) {
			req := request()
			change(&req)
			_, err := c.Complete(t.Context(), req)
			wantFailure(t, err, rollout.Permanent, rollout.CodeBadRequest)
		})
	}
}

// TestDeadlineIsTotal: neither silence nor a trickle keeps a call alive.
func TestDeadlineIsTotal(t *testing.T) {
	t.Parallel()
	for name, write := range map[string]func(http.ResponseWriter){
		"silent": func(http.ResponseWriter) {},
		"trickling": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var began atomic.Bool
			gone := make(chan struct{})
			c := engine(t, func(w http.ResponseWriter, r *http.Request) {
				began.Store(true)
				_, _ = io.Copy(io.Discard, r.Body)
				for r.Context().Err() == nil {
					write(w)
					select {
					case <-r.Context().Done():
					case <-time.After(5 * time.Millisecond):
					}
				}
				close(gone)
			})
			req := request()
			req.Timeout = rollout.Duration(60 * time.Millisecond)
			_, err := c.Complete(t.Context(), req)
			wantFailure(t, err, rollout.Retryable, rollout.CodeTimeout)
			if began.Load() {
				<-gone // the engine is told: the connection is closed, and it may free the memory
			}
		})
	}
}

func TestCancelledByTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c := engine(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	_, err := c.Complete(ctx, request())
	wantFailure(t, err, rollout.Retryable, rollout.CodeCancelled)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not context.Canceled", err)
	}
}

// nobody is an address where no engine is. A port that the kernel gives away might be another test's by now.
const nobody = "http://127.0.0.1:1"

func TestEngineGone(t *testing.T) {
	t.Parallel()
	c, err := New(Config{BaseURL: nobody})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Complete(t.Context(), request())
	wantFailure(t, err, rollout.Retryable, rollout.CodeEngineGone)

	hangup := engine(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	_, err = hangup.Complete(t.Context(), request())
	wantFailure(t, err, rollout.Retryable, rollout.CodeEngineGone)
}

func TestTruncatedAnswer(t *testing.T) {
	t.Parallel()
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Length", fmt.Sprint(len(goodAnswer)))
		_, _ = io.WriteString(w, goodAnswer[:len(goodAnswer)/2])
	})
	_, err := c.Complete(t.Context(), request())
	wantFailure(t, err, rollout.Retryable, rollout.CodeBadAnswer)
}

// TestKeepAliveRace: an engine that closes a kept-alive connection just as the next request
// arrives costs nothing: the transport repeats the request on a fresh connection.
func TestKeepAliveRace(t *testing.T) {
	t.Parallel()
	served := map[string]int{} // by connection
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		served[r.RemoteAddr]++
		if served[r.RemoteAddr] == 2 {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		if !json.Valid(body) {
			t.Errorf("request %d: body is not JSON: %q", len(served), body)
		}
		answering(200, goodAnswer)(w, r)
	})
	for range 3 { // one after the other, so that connections are reused
		if _, err := c.Complete(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
	}
	if len(served) < 2 {
		t.Errorf("%d connections: the race did not happen", len(served))
	}
}

func TestOverloadKeepsRetryAfter(t *testing.T) {
	t.Parallel()
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "2")
		answering(503, `{"error":{"message":"full","type":"ServiceUnavailable","code":503}}`)(w, r)
	})
	_, err := c.Complete(t.Context(), request())
	var status *StatusError
	if !errors.As(err, &status) || status.RetryAfter != 2*time.Second {
		t.Errorf("got %v (%+v), want Retry-After of 2 s", err, status)
	}
}

func TestNewRefusesBadAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "localhost:8000", "ftp://x", "http://", "http://a b"} {
		if _, err := New(Config{BaseURL: address}); err == nil {
			t.Errorf("New(%q) took a bad address", address)
		}
	}
	for _, address := range []string{"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"} {
		c, err := New(Config{BaseURL: address})
		if err != nil || c.root != "http://h:1" {
			t.Errorf("New(%q): root %q, %v", address, c.root, err)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(goodAnswer)
	f.Add(`{"choices":[{"logprobs":{"token_logprobs":[null]}}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := New(Config{BaseURL: "http://engine", HTTPClient: &http.Client{Transport: canned(body)}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Complete(t.Context(), request())
		if err == nil && !allowed(got, request()) {
			t.Errorf("took %q as %+v", body, got)
		}
	})
}

// allowed reports whether a completion is one that its request allows.
func allowed(c rollout.Completion, req rollout.Request) bool {
	outside := func(id int32) bool { return id < 0 || id >= 1<<20 }
	return len(c.TokenIDs) > 0 && len(c.TokenIDs) <= req.Sampling.MaxTokens && len(c.Logprobs) == len(c.TokenIDs) &&
		!slices.ContainsFunc(c.TokenIDs, outside) && !slices.ContainsFunc(c.PromptTokenIDs, outside) &&
		!slices.ContainsFunc(c.Logprobs, func(v float32) bool { return !(v >= -9999 && v <= 0.01) }) &&
		len(c.Text) <= 1024+256*len(c.TokenIDs) && c.Model == req.Model &&
		slices.Contains([]string{"stop", "length"}, c.FinishReason)
}

// canned answers every request with a body, without a network.
type canned string

func (c canned) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(c)))}, nil
}

// BenchmarkComplete is the client's own cost of one call: 440 prompt and 24 completion tokens.
func BenchmarkComplete(b *testing.B) {
	ids := func(n int) string { return strings.TrimSuffix(strings.Repeat("151644,", n), ",") }
	lps := strings.TrimSuffix(strings.Repeat("-0.6931472,", 24), ",")
	body := fmt.Sprintf(`{"id":"cmpl-1","model":"demo-v3","choices":[{"index":0,"text":"A PAR - BUR","logprobs":{"text_offset":[%[2]s],
"token_logprobs":[%[3]s],"tokens":[],"top_logprobs":[]},"finish_reason":"stop","stop_reason":null,"token_ids":[%[2]s],"prompt_token_ids":[%[1]s]}],
"usage":{"prompt_tokens":440,"completion_tokens":24,"total_tokens":464}}`, ids(440), ids(24), lps)
	c, err := New(Config{BaseURL: "http://engine", HTTPClient: &http.Client{Transport: canned(body)}})
	if err != nil {
		b.Fatal(err)
	}
	req := request()
	req.Prompt = strings.Repeat("A PAR - BUR ", 150)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Complete(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
