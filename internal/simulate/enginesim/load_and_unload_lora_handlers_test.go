package enginesim

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

func TestLoadAnswers(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	loaded := r.loadAdapter("run-v1")
	good := adapterDir(t, peft(`"r": 16`))
	const failed = "Call to add_lora method failed: "
	for _, tt := range []struct {
		name, request string
		status        int
		want          string
	}{
		{"ok", fmt.Sprintf(`{"lora_name": "run-v2", "lora_path": %q}`, good), 200, "Success: LoRA adapter 'run-v2' added " +
			"successfully."},
		{"empty name", `{"lora_name": "", "lora_path": "/x"}`, 400,
			vllmError("Both 'lora_name' and 'lora_path' must be provided.", "InvalidUserInput", nil, 400)},
		{"loaded already", fmt.Sprintf(`{"lora_name": "run-v1", "lora_path": %q}`, loaded), 400,
			vllmError("The lora adapter 'run-v1' has already been loaded. "+
				"If you want to load the adapter in place, set 'load_inplace' to True.", "InvalidUserInput", nil, 400)},
		{"in place", fmt.Sprintf(`{"lora_name": "run-v1", "lora_path": %q, "load_inplace": true}`, loaded), 200,
			"Success: LoRA adapter 'run-v1' added successfully."},
		{"no such path", `{"lora_name": "x", "lora_path": "/nowhere/x"}`, 404,
			vllmError("Loading lora x failed: No adapter found for /nowhere/x", "NotFoundError", nil, 404)},
		{"no such path that is hidden", `{"lora_name": "x", "lora_path": "/tmp/nowhere/run-v1"}`, 404,
			vllmError("Loading lora x failed: No adapter found for <path>", "NotFoundError", nil, 404)},
		{"the base model's name", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, fast().Model, good), 400,
			vllmError(fmt.Sprintf("The lora adapter '%s' conflicts with a served base model.", fast().Model),
				"InvalidUserInput", nil, 400)},
		{"rank 0", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, peft(`"r": 0`))), 500,
			vllmError(failed+"LoRA rank `r` must be a positive integer, got 0.", "InternalServerError", nil, 500)},
		{"rank", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, peft(`"r": 64`))), 500,
			vllmError(failed+"LoRA rank 64 is greater than max_lora_rank 16.", "InternalServerError", nil, 500)},
		{"DoRA", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, peft(`"r": 8, "use_dora": true`))), 500,
			vllmError(failed+"vLLM does not yet support DoRA.", "InternalServerError", nil, 500)},
		{"bias", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, peft(`"r": 8, "bias": "all"`))), 500,
			vllmError(failed+"Adapter bias is not supported.", "InternalServerError", nil, 500)},
		{"two faults", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, peft(`"r": 64, "bias": "all"`))), 500,
			vllmError(failed+"LoRA rank 64 is greater than max_lora_rank 16. Adapter bias is not supported.",
				"InternalServerError", nil, 500)},
		{"no alpha", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, `{"r": 8}`)), 500,
			vllmError(failed+"Missing required configuration fields: {'lora_alpha', 'target_modules'}",
				"InternalServerError", nil, 500)},
		{"modules to save", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`,
			adapterDir(t, peft(`"r": 8, "modules_to_save": ["lm_head"]`))), 500,
			vllmError(failed+"vLLM only supports modules_to_save being None.", "InternalServerError", nil, 500)},
	} {
		got := r.post("/v1/load_lora_adapter", tt.request)
		if got.status != tt.status || !sameJSON(got.body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, got.status, got.body, tt.status, tt.want)
		}
	}
	missing := r.post("/v1/load_lora_adapter", `{"lora_path": "/x"}`)
	if missing.status != 400 || !strings.Contains(missing.body, `"type":"Bad Request"`) ||
		!strings.Contains(missing.body, `"param":"body.lora_name"`) {
		t.Errorf("missing field: %d %s", missing.status, missing.body)
	}
	broken := r.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, adapterDir(t, `{"r": `)))
	if broken.status != 500 || !strings.Contains(broken.body, failed) {
		t.Errorf("broken configuration: %d %s", broken.status, broken.body)
	}
	for name, weights := range map[string]string{
		"short": "\x02", "long header": "\xff\x00\x00\x00\x00\x00\x00\x00{}", "no JSON": "\x02\x00\x00\x00\x00\x00\x00\x00xx",
		"cut off": "\x22\x00\x00\x00\x00\x00\x00\x00" + `{"a":{"data_offsets":[0,1000000]}}`,
	} {
		dir := adapterDir(t, peft(`"r": 8`))
		if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), []byte(weights), 0o600); err != nil {
			t.Fatal(err)
		}
		got := r.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "x", "lora_path": %q}`, dir))
		if got.status != 500 || !strings.Contains(got.body, failed+"Error while deserializing header: ") {
			t.Errorf("weights %s: %d %s", name, got.status, got.body)
		}
	}
	if got := r.do(http.MethodPost, "/v1/load_lora_adapter", `{}`, "Content-Type", "text/plain"); got.status != 400 ||
		!strings.Contains(got.body, "application/json") {
		t.Errorf("wrong content type: %d %s", got.status, got.body)
	}
}

func TestWeightsDecideTheDistribution(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	sample := func() string {
		return r.completion(`{"model": "v", "prompt": "x", "seed": 1, "max_tokens": 40}`).Choices[0].Text
	}
	dir := r.loadAdapter("v")
	first := sample()
	if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"),
		[]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}trained"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "v", "lora_path": %q, "load_inplace": true}`,
		dir)); got.status != 200 {
		t.Fatal(got.body)
	}
	if sample() == first {
		t.Error("other weights under the same name and path sample the same")
	}
}

func TestUnloadAnswers(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	r.loadAdapter("run-v1")
	for _, tt := range []struct {
		request string
		status  int
		want    string
	}{
		{`{"lora_name": ""}`, 400, vllmError("'lora_name' needs to be provided to unload a LoRA adapter.",
			"InvalidUserInput", nil, 400)},
		{`{"lora_name": "x"}`, 404, vllmError("The lora adapter 'x' cannot be found.", "NotFoundError", nil, 404)},
		{`{"lora_name": "run-v1", "lora_int_id": null}`, 200, "Success: LoRA adapter 'run-v1' removed successfully."},
		{`{"lora_name": "run-v1"}`, 404, vllmError("The lora adapter 'run-v1' cannot be found.", "NotFoundError", nil, 404)},
	} {
		if got := r.post("/v1/unload_lora_adapter", tt.request); got.status != tt.status || !sameJSON(got.body, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.request, got.status, got.body, tt.status, tt.want)
		}
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.RuntimeLoRA = false }))
	got := r.post("/v1/load_lora_adapter", `{"lora_name": "x", "lora_path": "/x"}`)
	if got.status != 404 || !sameJSON(got.body, `{"detail":"Not Found"}`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	dir := r.loadAdapter("run-v1")
	got := r.get("/v1/models")
	for _, want := range []string{
		`"id":"qwen"`, `"root":"/models/qwen"`, `"parent":null`, `"max_model_len":32768`,
		`"id":"run-v1"`, fmt.Sprintf(`"root":%q`, dir), `"parent":"qwen"`, `"max_model_len":null`, `"owned_by":"vllm"`,
		`"object":"list"`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("no %s in %s", want, got.body)
		}
	}
}

func TestUnknownModel(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	got := r.post("/v1/completions", `{"model": "run-v9", "prompt": "x"}`)
	if want := vllmError("The model `run-v9` does not exist.", "NotFoundError", "model", 404); got.status != 404 ||
		!sameJSON(got.body, want) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if c := r.completion(`{"prompt": "x"}`); c.Model != "qwen" {
		t.Errorf("without a model %q answers, want the base model", c.Model)
	}
}

// An engine that serves policies answers as the adapter decides, and refuses adapters that are none.
func TestPolicyAdapters(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.Policy = true }))
	load := func(dir string) reply {
		return r.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": "run-v1", "lora_path": %q}`, dir))
	}
	if got := load(adapterDir(t, peft(`"r": 8`))); got.status != 500 ||
		!strings.Contains(got.body, "no tensor policy.weight") || !strings.Contains(got.body, "--policy") {
		t.Errorf("an adapter without a policy: %d %s", got.status, got.body)
	}
	policy := new(pseudolm.Policy)
	for i := range policy {
		policy[i] = float32(i%7) / 100
	}
	header := fmt.Sprintf(`{"policy.weight":{"dtype":"F32","data_offsets":[0,%d]}}`, binary.Size(policy))
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	file, err := binary.Append(file, binary.LittleEndian, policy)
	if err != nil {
		t.Fatal(err)
	}
	dir := adapterDir(t, peft(`"r": 8`))
	if err := os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := load(dir); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	const ask = `{"model": %q, "prompt": "X . O move: ", "logprobs": 0, "structured_outputs": {"choice": ["a", "b"]}}`
	base := r.completion(fmt.Sprintf(ask, fast().Model)).Choices[0].Logprobs.TokenLogprobs[0]
	tuned := r.completion(fmt.Sprintf(ask, "run-v1")).Choices[0].Logprobs.TokenLogprobs[0]
	if math.Abs(base+math.Ln2) > 1e-9 || math.Abs(tuned+math.Ln2) < 1e-3 {
		t.Errorf("log-probabilities of one of two answers: base %g, want %g; adapter %g", base, -math.Ln2, tuned)
	}
}
