package enginesim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestQueueLimitAnswers503(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.MaxQueuedRequests, c.Speed = 2, 0.01 }))
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _, _ = r.try(ctx, `{"prompt": "x", "max_tokens": 50, "ignore_eos": true}`) })
	}
	r.until(func(f scraped) bool { return f.value(t, "num_requests_running") == 2 })
	if got := r.post("/v1/completions", `{"prompt": "x"}`); got.status != 503 || !strings.Contains(got.body, `"error":{`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := r.get("/health"); got.status != 200 {
		t.Error("an overloaded engine is not healthy")
	}
	leave()
	all.Wait()
}

func TestDeferredAdaptersShowInMetrics(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.MaxLoRAs, c.Speed = 1, 0.2 }))
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, name := range []string{"v1", "v2"} {
		r.loadAdapter(name)
	}
	for _, name := range []string{"v1", "v2"} {
		all.Go(func() {
			_, _ = r.try(ctx, `{"model": "`+name+`", "prompt": "x", "max_tokens": 500, "ignore_eos": true}`)
		})
	}
	r.until(func(f scraped) bool {
		return f.value(t, "num_requests_running") == 1 &&
			f.value(t, "num_requests_waiting_by_reason", "reason", "deferred") == 1
	})
	info := r.scrape()["lora_requests_info"]
	latest := reading{}
	for _, s := range info.series {
		if s.value > latest.value {
			latest = s
		}
	}
	running, waiting := latest.labels["running_lora_adapters"], latest.labels["waiting_lora_adapters"]
	if latest.labels["max_lora"] != "1" || running == waiting || len(running) != 2 || len(waiting) != 2 {
		t.Errorf("running %q, waiting %q of %v", running, waiting, latest.labels)
	}
	leave()
	all.Wait()
}

func TestManyEnginesInOneProcess(t *testing.T) {
	t.Parallel()
	var engines []*rig
	for i := range 4 {
		engines = append(engines, start(t, fast(func(c *Config) { c.Model = fmt.Sprintf("model-%d", i) })))
	}
	var all sync.WaitGroup
	for i, r := range engines {
		all.Go(func() {
			for range 20 {
				if c := r.completion(`{"prompt": "x", "max_tokens": 8}`); c.Model != fmt.Sprintf("model-%d", i) {
					t.Errorf("engine %d answers for %s", i, c.Model)
				}
			}
		})
	}
	all.Wait()
	for _, r := range engines {
		if n := r.scrape().value(t, "e2e_request_latency_seconds"); n != 20 {
			t.Errorf("%g requests counted, want 20", n)
		}
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.FaultRoute = true }))
	c := r.completion(`{"prompt": "A PAR", "max_tokens": 30, "ignore_eos": true}`)
	s, err := r.engine.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Totals.GenerationTokens != int64(c.Usage.CompletionTokens) || s.Totals.Submitted != 1 || s.Totals.Finished != 1 ||
		s.Busy <= 0 || s.Busy > s.Elapsed {
		t.Errorf("%+v", s)
	}
}

// FuzzCompletionsNeverBreakTheEngine sends arbitrary bodies: each gets an answer in vLLM's shapes,
// and the engine goes on.
func FuzzCompletionsNeverBreakTheEngine(f *testing.F) {
	for _, seed := range []string{
		`{"prompt": "x"}`, `{"prompt": [1, 2], "n": 1, "logprobs": 0}`,
		`{"prompt": ["a", "b"], "max_tokens": 0, "logprobs": 0}`,
		`{"prompt": "x", "structured_outputs": {"regex": "a*"}, "stop": ["aa"]}`, `{"prompt": "x", "stream": true}`, `[]`,
		`null`, `{"prompt": [[]]}`,
		`{"prompt": "x", "temperature": 0, "top_k": 3}`,
		`{"prompt": "x", "seed": -1}`,
	} {
		f.Add(seed)
	}
	r := start(f, fast(func(c *Config) { c.Speed, c.MaxModelLen = 1e5, 256 }))
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 4096 {
			t.Skip("longer bodies take longer and say nothing more")
		}
		got, err := r.try(t.Context(), body)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case got.status == 200, got.status == 400, got.status == 404:
		default:
			t.Errorf("%d %s", got.status, got.body)
		}
		if got.status == 200 && !strings.Contains(got.body, `"object":"text_completion"`) {
			t.Errorf("%s", got.body)
		}
	})
}
