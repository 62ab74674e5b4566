package enginesim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rig is a running engine with its API on a loopback port.
type rig struct {
	t      testing.TB
	engine *Engine
	url    string
}

// fast is a configuration whose model time is far ahead of the test's.
func fast(change ...func(*Config)) Config {
	cfg := DefaultConfig()
	cfg.Model, cfg.ModelPath, cfg.Speed, cfg.MaxLoRARank = "qwen", "/models/qwen", 200, 16
	for _, c := range change {
		c(&cfg)
	}
	return cfg
}

func start(t testing.TB, cfg Config) *rig {
	t.Helper()
	engine, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	server := httptest.NewServer(engine.Handler())
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	})
	return &rig{t, engine, server.URL}
}

// reply is an answer as a client sees it.
type reply struct {
	status int
	body   string
	header http.Header
}

func (r *rig) do(method, path, body string, header ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{resp.StatusCode, string(raw), resp.Header}
}

func (r *rig) get(path string) reply        { r.t.Helper(); return r.do(http.MethodGet, path, "") }
func (r *rig) post(path, body string) reply { r.t.Helper(); return r.do(http.MethodPost, path, body) }

type completionResponse struct {
	ID, Object, Model string
	Choices           []completionChoice
	Usage             *usage
}

// completion sends a request that must succeed.
func (r *rig) completion(body string) completionResponse {
	r.t.Helper()
	got := r.post("/v1/completions", body)
	if got.status != http.StatusOK {
		r.t.Fatalf("%d %s", got.status, got.body)
	}
	var c completionResponse
	if err := json.Unmarshal([]byte(got.body), &c); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// adapterDir writes an adapter with this adapter_config.json.
func adapterDir(t testing.TB, config string) string {
	t.Helper()
	dir := t.TempDir()
	header := []byte(`{}`)
	weights := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	for name, content := range map[string][]byte{"adapter_config.json": []byte(config),
		"adapter_model.safetensors": weights} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// peft is an adapter_config.json with these fields and those that PEFT requires.
func peft(fields string) string {
	return `{"peft_type": "LORA", "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], ` + fields + `}`
}

func (r *rig) loadAdapter(name string) string {
	r.t.Helper()
	dir := adapterDir(r.t, peft(`"r": 8, "bias": "none"`))
	if got := r.post("/v1/load_lora_adapter", fmt.Sprintf(`{"lora_name": %q, "lora_path": %q}`, name,
		dir)); got.status != http.StatusOK {
		r.t.Fatalf("load %s: %d %s", name, got.status, got.body)
	}
	return dir
}

// vllmError is vLLM's error shape, compared as JSON.
func vllmError(message, kind string, param any, code int) string {
	raw, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind,
		"param": param, "code": code}})
	return string(raw)
}

func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	var av, bv any
	if json.Unmarshal([]byte(a), &av) != nil || json.Unmarshal([]byte(b), &bv) != nil {
		return a == b
	}
	_ = json.NewEncoder(&x).Encode(av)
	_ = json.NewEncoder(&y).Encode(bv)
	return x.String() == y.String()
}
