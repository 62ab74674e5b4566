package vllm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

func TestLoadAdapterReadsTheEnginesWords(t *testing.T) {
	t.Parallel()
	fault := func(message, kind string, code int) string {
		return fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%d}}`, message, kind, code)
	}
	loaded := fault("The lora adapter 'demo-v3' has already been loaded. If you want to load the adapter in place, set "+
		"'load_inplace' to True.", "InvalidUserInput", 400)
	for _, tt := range []struct {
		name   string
		status int
		body   string
		root   string       // what /v1/models says of demo-v3
		code   rollout.Code // "": success
		kind   rollout.FailureKind
	}{
		{name: "loaded", status: 200, body: "Success: LoRA adapter 'demo-v3' added successfully."},
		{name: "again, same weights", status: 400, body: loaded, root: "/adapters/demo-v3"},
		{name: "again, other weights", status: 400, body: loaded, root: "/adapters/other", code: rollout.CodeAdapterConflict,
			kind: rollout.Permanent},
		{name: "again, not listed", status: 400, body: loaded, code: rollout.CodeEngineError, kind: rollout.Retryable},
		{name: "gate closed", status: 404, body: `{"detail":"Not Found"}`, code: rollout.CodeLoRADisabled,
			kind: rollout.Permanent},
		{name: "no such path", status: 404, body: fault("Loading lora demo-v3 failed: No adapter found for <path>",
			"NotFoundError", 404), code: rollout.CodeAdapterMissing, kind: rollout.Permanent},
		{name: "rank", status: 500, body: fault("Call to add_lora method failed: LoRA rank 64 is greater than "+
			"max_lora_rank 16.", "InternalServerError", 500), code: rollout.CodeRankTooHigh, kind: rollout.Permanent},
		{name: "rank, from a worker process of its own", status: 500,
			body: fault("Call to add_lora method failed: Worker failed with error 'LoRA rank 64 is greater than max_lora_rank "+
				"16.', please check the stack trace above for the root cause", "InternalServerError", 500),
			code: rollout.CodeRankTooHigh,
			kind: rollout.Permanent},
		{name: "DoRA", status: 500, body: fault("Call to add_lora method failed: vLLM does not yet support DoRA.",
			"InternalServerError", 500), code: rollout.CodeBadAdapter, kind: rollout.Permanent},
		{name: "file system", status: 500, body: fault("Call to add_lora method failed: [Errno 5] Input/output error",
			"InternalServerError", 500), code: rollout.CodeEngineError, kind: rollout.Retryable},
		{name: "resolver", status: 400, body: fault("LoRA adapter 'demo-v3' was found but could not be loaded.",
			"BadRequestError", 400), code: rollout.CodeBadAdapter, kind: rollout.Permanent},
		{name: "dying", status: 500, body: fault("EngineCore encountered an issue. See stack trace (above) for the root "+
			"cause.", "InternalServerError", 500), code: rollout.CodeEngineDead, kind: rollout.Retryable},
		{name: "missing field", status: 400, body: fault("1 validation error", "Bad Request", 400),
			code: rollout.CodeBadRequest,
			kind: rollout.Permanent},
		{name: "scaling", status: 503, body: `{"error":"The model is currently scaling. Please try again later."}`,
			code: rollout.CodeOverloaded, kind: rollout.Retryable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := engine(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/models" {
					data := `{"id":"qwen","root":"Qwen/Qwen2.5-7B","parent":null,"max_model_len":4096}`
					if tt.root != "" {
						data += fmt.Sprintf(`,{"id":"demo-v3","root":%q,"parent":"qwen","max_model_len":null}`, tt.root)
					}
					answering(200, `{"object":"list","data":[`+data+`]}`)(w, r)
					return
				}
				var body map[string]string
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body["lora_name"] != "demo-v3" ||
					body["lora_path"] != "/adapters/demo-v3" {
					t.Errorf("body %v, %v", body, err)
				}
				if ct := r.Header.Get("Content-Type"); ct != "application/json" {
					t.Errorf("Content-Type %q", ct)
				}
				answering(tt.status, tt.body)(w, r)
			})
			err := c.LoadAdapter(t.Context(), "demo-v3", "/adapters/demo-v3")
			if tt.code == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantFailure(t, err, tt.kind, tt.code)
		})
	}
}

func TestUnloadAdapter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		body   string
		code   rollout.Code
	}{
		{"unloaded", 200, "Success: LoRA adapter 'x' removed successfully.", ""},
		{"not there", 404, `{"error":{"message":"The lora adapter 'x' cannot be found.","type":"NotFoundError","param":null,"code":404}}`, ""},
		{"gate closed", 404, `{"detail":"Not Found"}`, rollout.CodeLoRADisabled},
		{"engine kept it", 500,
			`{"error":{"message":"Failed to remove lora adapter 'x' from the engine.","type":"InternalServerError","code":500}}`,
			rollout.CodeEngineError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := engine(t, answering(tt.status, tt.body)).UnloadAdapter(t.Context(), "x")
			if rollout.CodeOf(err) != tt.code || (err == nil) != (tt.code == "") {
				t.Errorf("got %v, want code %q", err, tt.code)
			}
		})
	}
}

func TestHealthAndVersion(t *testing.T) {
	t.Parallel()
	healthy := engine(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			_, _ = io.WriteString(w, `{"version":"0.29.0"}`)
		}
	})
	if err := healthy.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := healthy.Version(t.Context()); v != "0.29.0" || err != nil {
		t.Errorf("version %q, %v", v, err)
	}
	// 503 of a completion is overload; 503 of /health is death.
	wantFailure(t, engine(t, answering(503, "")).Health(t.Context()), rollout.Retryable, rollout.CodeEngineDead)
	_, err := engine(t, answering(200, "<html>")).Version(t.Context())
	wantFailure(t, err, rollout.Permanent, rollout.CodeNotAnEngine)
}

func TestModels(t *testing.T) {
	t.Parallel()
	got, err := engine(t, answering(200, `{"object":"list","data":[
		{"id":"qwen","object":"model","owned_by":"vllm","root":"Qwen/Qwen2.5-7B","parent":null,"max_model_len":4096,"permission":[]},
		{"id":"demo-v1","object":"model","owned_by":"vllm","root":"/adapters/1","parent":"qwen","max_model_len":null,"permission":[]}]}`)).Models(t.Context())
	want := []Model{{ID: "qwen", Root: "Qwen/Qwen2.5-7B", MaxModelLen: 4096},
		{ID: "demo-v1", Root: "/adapters/1", Parent: "qwen"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if want[0].Adapter() || !want[1].Adapter() {
		t.Error("an adapter is a model with a parent")
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const today = `# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="qwen"} 3
vllm:num_requests_running{engine="1",model_name="qwen"} 4
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="qwen"} 2
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="qwen",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="0",model_name="qwen",reason="deferred"} 1
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="qwen"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="qwen"} 0.5
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="qwen"} 100
vllm:prompt_tokens_total{engine="1",model_name="qwen"} 10
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="qwen"} 1.7e+09
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="qwen"} 20
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="qwen"} 1
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="qwen"} 7
vllm:request_success_total{engine="1",finished_reason="stop",model_name="qwen"} 1
vllm:request_success_total{engine="0",finished_reason="abort",model_name="qwen"} 2
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="qwen"} 8
vllm:time_to_first_token_seconds_sum{engine="0",model_name="qwen"} 0.5
vllm:time_to_first_token_seconds_count{engine="0",model_name="qwen"} 8
# TYPE python_info gauge
python_info{version="3.12"} 1
`
	prefix := "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total{engine=\"0\"} 110\n" +
		"# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total{engine=\"0\"} 60\n"
	older := strings.NewReplacer("vllm:kv_cache", "vllm:gpu_cache", "vllm:prefix_cache", "vllm:gpu_prefix_cache")
	want := Sample{
		Running: 7, Waiting: 2, Deferred: 1, KVUsage: 0.5, PromptTokens: 110, GenerationTokens: 20,
		PrefixQueries: 110, PrefixHits: 60, Preemptions: 1, Finished: map[string]float64{"stop": 8, "abort": 2},
	}
	for name, text := range map[string]string{"today": today + prefix, "older names": older.Replace(today + prefix)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := engine(t, answering(200, text)).Metrics(t.Context())
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v\nwant %+v", got, err, want)
			}
		})
	}
	for name, text := range map[string]string{
		"log stats disabled": "# TYPE python_info gauge\npython_info 1\n",
		"not metrics":        "<html>\n",
		"empty":              "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := engine(t, answering(200, text)).Metrics(t.Context())
			wantFailure(t, err, rollout.Retryable, rollout.CodeBadAnswer)
		})
	}
}
