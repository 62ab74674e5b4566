package vllm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// answered answers every request in the same way, without a network.
type answered struct {
	status     int
	retryAfter string
	body       string
}

func (a answered) RoundTrip(*http.Request) (*http.Response, error) {
	header := http.Header{}
	header.Set("Retry-After", a.retryAfter)
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// controlCalls are the calls whose answers control the fleet.
var controlCalls = map[string]func(context.Context, *Client) error{
	"health": func(ctx context.Context, c *Client) error { return c.Health(ctx) },
	"version": func(ctx context.Context, c *Client) error {
		_, err := c.Version(ctx)
		return err
	},
	"models": func(ctx context.Context, c *Client) error {
		_, err := c.Models(ctx)
		return err
	},
	"load":     func(ctx context.Context, c *Client) error { return c.LoadAdapter(ctx, "demo-v3", "/adapters/3") },
	"unload":   func(ctx context.Context, c *Client) error { return c.UnloadAdapter(ctx, "demo-v3") },
	"complete": func(ctx context.Context, c *Client) error { _, err := c.Complete(ctx, request()); return err },
}

var codes = []rollout.Code{
	rollout.CodeEngineGone, rollout.CodeEngineDead, rollout.CodeEngineError, rollout.CodeOverloaded, rollout.CodeTimeout,
	rollout.CodeCancelled, rollout.CodeUnknownModel, rollout.CodeWrongModel, rollout.CodeAborted,
	rollout.CodeBadAnswer, rollout.CodeBadRequest,
	rollout.CodeUnauthorized, rollout.CodeNotAnEngine, rollout.CodeLoRADisabled, rollout.CodeAdapterMissing,
	rollout.CodeAdapterConflict, rollout.CodeRankTooHigh, rollout.CodeBadAdapter,
}

// FuzzControl: whatever an engine, or something else at its address, answers, a call ends with a code that the fleet
// knows, with a text that fits into a log, and with a wait that is none or up to an hour.
func FuzzControl(f *testing.F) {
	for _, seed := range []answered{
		{200, "", `{"version":"0.11.0"}`},
		{200, "", `{"object":"list","data":[{"id":"Qwen/Qwen2.5-7B-Instruct","object":"model","root":"Qwen/Qwen2.5-7B-Instruct","parent":null,"max_model_len":8192},{"id":"demo-v3","root":"/adapters/3","parent":"Qwen/Qwen2.5-7B-Instruct"}]}`},
		{200, "", "Success: LoRA adapter 'demo-v3' added successfully."},
		{400, "", `{"error":{"message":"The lora adapter 'demo-v3' has already been loaded.","type":"InvalidUserInput","param":null,"code":400}}`},
		{400, "", `{"error":{"message":"Call to add_lora method failed: LoRA rank 64 is greater than max_lora_rank 16.","type":"BadRequestError","code":400}}`},
		{404, "", `{"error":{"message":"Loading lora demo-v3 failed: No adapter found for /adapters/3","type":"NotFoundError","code":404}}`},
		{404, "", `{"detail":"Not Found"}`},
		{422, "", `{"detail":[{"type":"missing","loc":["body","lora_name"],"msg":"Field required"}]}`},
		{500, "", `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","code":500}}`},
		{503, "2", `{"error":"The model is unavailable while it scales"}`},
		{429, "NaN", ""},
		{302, "-1", "<html>moved</html>"},
		{401, "1e400", `{"error":"Unauthorized"}`},
	} {
		for name := range controlCalls {
			f.Add(name, seed.status, seed.retryAfter, seed.body)
		}
	}
	f.Fuzz(func(t *testing.T, name string, status int, retryAfter, body string) {
		call, known := controlCalls[name]
		if !known || status < 200 || status > 599 {
			t.Skip("no such call, or no such status in HTTP")
		}
		c, err := New(Config{BaseURL: "http://engine",
			HTTPClient: &http.Client{Transport: answered{status, retryAfter, body}}})
		if err != nil {
			t.Fatal(err)
		}
		err = call(t.Context(), c)
		if err == nil {
			if status != http.StatusOK && name != "unload" {
				t.Errorf("%s took status %d as success", name, status)
			}
			return
		}
		if kind := rollout.KindOf(err); kind != rollout.Retryable && kind != rollout.Permanent ||
			!slices.Contains(codes, rollout.CodeOf(err)) {
			t.Errorf("%s: %v: kind %v, code %q", name, err, kind, rollout.CodeOf(err))
		}
		var said *StatusError
		if errors.As(err, &said) && (said.RetryAfter < 0 || said.RetryAfter > time.Hour || len(said.Message) > 2010) {
			t.Errorf("%s: wait %v, a text of %d bytes", name, said.RetryAfter, len(said.Message))
		}
	})
}

// FuzzMetrics: figures that are read are figures, for JSON has no others.
func FuzzMetrics(f *testing.F) {
	for _, text := range []string{
		"# HELP vllm:num_requests_running Number of requests in model execution batches.\n# TYPE vllm:num_requests_running " +
			"gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n",
		"# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc{model_name=\"m\"} 0.25\n# TYPE " +
			"vllm:request_success_total counter\nvllm:request_success_total{finished_reason=\"stop\"} " +
			"7\nvllm:request_success_total{finished_reason=\"length\"} 1\n",
		"# TYPE vllm:lora_requests_info " +
			"gauge\nvllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"demo-v3\",waiting_lora_adapters=\"\"} " +
			"1.7e9\n# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine=\"0\"} " +
			"100\nvllm:prompt_tokens_total{engine=\"1\"} 100\n",
		"# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} " +
			"1\nvllm:time_to_first_token_seconds_sum 1\nvllm:time_to_first_token_seconds_count 1\n# TYPE " +
			"vllm:num_requests_waiting gauge\nvllm:num_requests_waiting NaN\n",
		"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine=\"0\"} " +
			"1e308\nvllm:prompt_tokens_total{engine=\"1\"} 1e308\n",
		"#HELP vllm:prompt_tokens_total \n{}",
		"# TYPE python_gc_objects_collected_total counter\npython_gc_objects_collected_total 1\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseMetrics(bytes.NewReader(text))
		if err != nil {
			return
		}
		figures := []float64{s.Running, s.Waiting, s.Deferred, s.KVUsage, s.PromptTokens, s.GenerationTokens, s.PrefixQueries,
			s.PrefixHits, s.Preemptions}
		for _, n := range s.Finished {
			figures = append(figures, n)
		}
		for _, v := range figures {
			if math.IsNaN(v) || v < 0 || v > 1e15 {
				t.Errorf("%q was read as %+v", text, s)
			}
		}
		if s.MaxLoRAs < 0 {
			t.Errorf("%d adapters in a batch", s.MaxLoRAs)
		}
	})
}

// FuzzReadAnswer: what is read as an answer is JSON, and its text is what encoding/json makes of it.
func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":"A PAR H\n","logprobs":{"tokens":["A"],"token_logprobs":[-0.5,` +
			`-1e-3],"top_logprobs":[{"A":-0.5}]},"finish_reason":"stop","token_ids":[1,2],"prompt_token_ids":[7,8,9]}],` +
			`"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}},"x":[{"y":null}]}`,
		`{"choices":[{"text":"\u00e9\ud83d\ude00\\ \"", "token_ids":null,"logprobs":null}],"usage":null}`,
		`{"choices":[{"token_ids":[01]}]}`, `{"choices":[{"token_ids":[1.0,-1,2147483648]}]}`, `{"model":"a",}`, `{"a":[1,]}`,
		`{"a":tru}`, `{"choices":[{"logprobs":{"token_logprobs":[NaN,0x1p2,1e999]}}]}`, `{} {}`, `[]`, `null`, "{\"model\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got answer
		if err := got.read(body); err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("read what is no JSON: %q", body)
		}
		for _, c := range got.Choices {
			if c.Text == nil {
				continue
			}
			again, err := json.Marshal(*c.Text)
			var text string
			if err != nil || json.Unmarshal(again, &text) != nil || text != *c.Text {
				t.Errorf("a text that JSON cannot say: %q", *c.Text)
			}
		}
	})
}
