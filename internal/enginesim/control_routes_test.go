package enginesim

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPauseAborts(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.Speed = 0.05 }))
	got := make(chan reply, 1)
	go func() {
		answer, _ := r.try(t.Context(),
			`{"prompt": "x", "max_tokens": 3000, "ignore_eos": true, "logprobs": 0, "return_token_ids": true}`)
		got <- answer
	}()
	r.until(func(f scraped) bool { return f.value(t, "generation_tokens_total") > 0 })
	if a := r.post("/pause", ""); a.status != 200 || !sameJSON(a.body, `{"status":"paused"}`) {
		t.Errorf("pause: %d %s", a.status, a.body)
	}
	answer := <-got
	var c completionResponse
	if err := json.Unmarshal([]byte(answer.body), &c); err != nil || answer.status != 200 {
		t.Fatalf("%d %s", answer.status, answer.body)
	}
	choice := c.Choices[0]
	if n := len(choice.TokenIDs); *choice.FinishReason != "abort" || n == 0 || n >= 3000 ||
		n != c.Usage.CompletionTokens || n != len(choice.Logprobs.Tokens) {
		t.Errorf("%s after %d tokens, usage %+v", *choice.FinishReason, n, c.Usage)
	}
	if a := r.get("/is_paused"); !sameJSON(a.body, `{"is_paused":true}`) {
		t.Errorf("is_paused: %s", a.body)
	}
	if r.get("/health").status != 200 {
		t.Error("a paused engine is not healthy")
	}
	go func() {
		answer, _ := r.try(t.Context(), `{"prompt": "x", "max_tokens": 1}`)
		got <- answer
	}()
	if a := r.post("/resume", ""); !sameJSON(a.body, `{"status":"resumed"}`) {
		t.Errorf("resume: %s", a.body)
	}
	if answer := <-got; answer.status != 200 {
		t.Errorf("a request that came while paused: %d %s", answer.status, answer.body)
	}
	if a := r.post("/pause?mode=sideways", ""); a.status != 400 {
		t.Errorf("unknown mode: %d %s", a.status, a.body)
	}
}

func TestPauseKeepsAndWaits(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"keep", "wait"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := start(t, fast(func(c *Config) { c.Speed = 20 }))
			got := make(chan reply, 1)
			go func() {
				answer, _ := r.try(t.Context(), `{"prompt": "x", "max_tokens": 100, "ignore_eos": true}`)
				got <- answer
			}()
			r.until(func(f scraped) bool { return f.value(t, "generation_tokens_total") > 0 })
			r.post("/pause?mode="+mode, "")
			if mode == "wait" && r.scrape().value(t, "num_requests_running") != 0 {
				t.Error("pause returned before the request had ended")
			}
			r.post("/resume", "")
			if answer := <-got; !strings.Contains(answer.body, `"finish_reason":"length"`) {
				t.Errorf("%d %s", answer.status, answer.body)
			}
		})
	}
}

func TestAbortRequests(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.Speed = 0.05 }))
	got := make(chan reply, 2)
	for _, id := range []string{"a", "b"} {
		go func() {
			answer, _ := r.try(t.Context(), `{"prompt": "x", "max_tokens": 3000, "ignore_eos": true, "request_id": "`+id+`"}`)
			got <- answer
		}()
	}
	r.until(func(f scraped) bool { return f.value(t, "num_requests_running") == 2 })
	if a := r.post("/abort_requests", `{"request_ids": ["cmpl-b-0"]}`); !sameJSON(a.body,
		`{"status":"aborted","aborted":1}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if first := <-got; !strings.Contains(first.body, `"id":"cmpl-b"`) ||
		!strings.Contains(first.body, `"finish_reason":"abort"`) {
		t.Errorf("%s", first.body)
	}
	if a := r.post("/abort_requests", `{}`); !sameJSON(a.body, `{"status":"aborted","aborted":1}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-got
}

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
	if hits := f.value(t, "prefix_cache_hits_total"); hits != float64(u.PromptDetails.CachedTokens) ||
		hits != f.value(t, "prompt_tokens_cached_total") ||
		hits != f.value(t, "prompt_tokens_by_source_total", "source", "local_cache_hit") {
		t.Errorf("%g hits counted", hits)
	}
	if a := r.post("/reset_prefix_cache", ""); !sameJSON(a.body, `{"success":true}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if u := request("qwen"); u.PromptDetails.CachedTokens != 0 {
		t.Error("still cached after the reset")
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
		{"GET", "/ping", "", 200, ""},
		{"POST", "/ping", "", 200, ""},
		{"GET", "/version", "", 200, `{"version":"0.29.0"}`},
		{"GET", "/load", "", 200, `{"server_load":0}`},
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

func TestTokenizeRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	var tokens struct {
		Count  int     `json:"count"`
		Max    int     `json:"max_model_len"`
		Tokens []int32 `json:"tokens"`
	}
	got := r.post("/tokenize", `{"model": "qwen", "prompt": "A PAR - BUR\n"}`)
	if err := json.Unmarshal([]byte(got.body), &tokens); err != nil || tokens.Count != len(tokens.Tokens) ||
		tokens.Count == 0 || tokens.Max != 32768 {
		t.Errorf("%d %s", got.status, got.body)
	}
	raw, _ := json.Marshal(tokens.Tokens)
	if back := r.post("/detokenize", `{"tokens": `+string(raw)+`}`); !sameJSON(back.body, `{"prompt":"A PAR - BUR\n"}`) {
		t.Errorf("%d %s", back.status, back.body)
	}
	if chat := r.post("/tokenize", `{"messages": [{"role": "user", "content": "hi"}]}`); chat.status != 200 {
		t.Errorf("%d %s", chat.status, chat.body)
	}
}

func TestChat(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	const messages = `"messages": [{"role": "user", "content": [{"type": "text", "text": "Orders?"}]}], "structured_outputs": {"choice": ["A PAR H"]}`
	got := r.post("/v1/chat/completions",
		`{`+messages+`, "logprobs": true, "top_logprobs": 2, "return_token_ids": true, "request_id": "z"}`)
	var c chatResponse
	if err := json.Unmarshal([]byte(got.body), &c); err != nil || got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	choice := c.Choices[0]
	if choice.Message.Content != "A PAR H" || choice.Message.Role != "assistant" || c.ID != "chatcmpl-z" ||
		c.Object != "chat.completion" {
		t.Errorf("%s", got.body)
	}
	if n := len(choice.TokenIDs); n != len(choice.Logprobs.Content) || n != c.Usage.CompletionTokens ||
		len(c.PromptTokenIDs) != c.Usage.PromptTokens {
		t.Errorf("%d tokens, usage %+v", n, c.Usage)
	}
	stream := r.post("/v1/chat/completions", `{`+messages+`, "stream": true}`)
	text := ""
	for _, event := range events(t, stream.body) {
		var chunk chatResponse
		if err := json.Unmarshal([]byte(event), &chunk); err != nil || chunk.Object != "chat.completion.chunk" {
			t.Fatalf("%s", event)
		}
		text += chunk.Choices[0].Delta.Content
	}
	if text != "A PAR H" {
		t.Errorf("streamed %q", text)
	}
	if bad := r.post("/v1/chat/completions", `{"messages": []}`); bad.status != 400 {
		t.Errorf("%d %s", bad.status, bad.body)
	}
}
