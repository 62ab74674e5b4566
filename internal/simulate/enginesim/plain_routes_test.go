package enginesim

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPrefixCacheOverHTTP(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	r.loadAdapter("run-v1")
	long, _ := json.Marshal(strings.Repeat("The army in Paris holds. ", 40))
	request := func(model string) *usage {
		return r.completion(`{"model": "` + model + `", "prompt": ` + string(long) + `}`).Usage
	}
	if u := request("qwen"); u.PromptDetails == nil || u.PromptDetails.CachedTokens != 0 {
		t.Errorf("cold: %+v", u.PromptDetails)
	}
	u := request("qwen")
	if c := u.PromptDetails.CachedTokens; c == 0 || c%16 != 0 || c >= u.PromptTokens {
		t.Errorf("warm: %d of %d tokens cached", c, u.PromptTokens)
	}
	if u := request("run-v1"); u.PromptDetails.CachedTokens != 0 {
		t.Error("an adapter shares the base model's cache")
	}
	f := r.scrape()
	if hits := f.value(t, "prefix_cache_hits_total"); hits != float64(u.PromptDetails.CachedTokens) {
		t.Errorf("%g hits counted", hits)
	}
}

func TestPlainRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.APIKey, c.Version = "secret", "0.29.0" }))
	for _, tt := range []struct {
		method, path, key string
		status            int
		want              string
	}{
		{"GET", "/health", "", 200, ""},
		{"GET", "/version", "", 200, `{"version":"0.29.0"}`},
		{"GET", "/v1/models", "", 401, `{"error":"Unauthorized"}`},
		{"GET", "/v1/models", "wrong", 401, `{"error":"Unauthorized"}`},
		{"GET", "/v1/nothing", "secret", 404, `{"detail":"Not Found"}`},
		{"GET", "/v1/completions", "secret", 405, `{"detail":"Method Not Allowed"}`},
	} {
		got := r.do(tt.method, tt.path, "", "Authorization", "Bearer "+tt.key)
		if got.status != tt.status || !sameJSON(got.body, tt.want) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, got.status, got.body)
		}
	}
	if got := r.do("GET", "/v1/models", "", "Authorization", "Bearer secret"); got.status != 200 {
		t.Errorf("with the key: %d", got.status)
	}
}

func TestDetokenize(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	const text = "A PAR - BUR\n"
	raw, _ := json.Marshal(r.engine.tokens.Encode(text))
	if back := r.post("/detokenize", `{"tokens": `+string(raw)+`}`); !sameJSON(back.body, `{"prompt":"A PAR - BUR\n"}`) {
		t.Errorf("%d %s", back.status, back.body)
	}
}
