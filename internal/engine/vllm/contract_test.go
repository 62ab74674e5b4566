package vllm_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/simulate/enginesim"
)

// The contract is run against any engine with
//
//	go test ./internal/engine/vllm -run Contract -engine http://host:8000 [-engine-key KEY] [-good-adapter DIR -deep-adapter DIR] [-max-queued N]
//
// The adapter directories are as the engine sees them: one that it can serve, and one whose rank is too high for it.
var (
	engineURL   = flag.String("engine", "", "run the contract against this engine instead of a simulated one")
	engineKey   = flag.String("engine-key", "", "its API key")
	goodAdapter = flag.String("good-adapter", "", "a LoRA adapter that it can load")
	deepAdapter = flag.String("deep-adapter", "", "a LoRA adapter above its --max-lora-rank")
	maxQueued   = flag.Int("max-queued", 0, "its --max-num-queued-reqs, 4 or more")
)

// target is an engine under contract.
type target struct {
	client     *vllm.Client
	url, key   string
	model      string // base
	maxLen     int    // its context, in tokens
	good, deep string // adapter directories; empty: unknown
	queued     int    // requests that it holds at most; 0: any number
}

// TestContract holds what Millrace relies on, call by call. What a real engine answers is right; where a simulated
// one differs, it is to be fixed.
func TestContract(t *testing.T) {
	t.Parallel()
	x := newTarget(t)
	for _, c := range []struct {
		name string
		hold func(*testing.T, *target)
	}{
		{"lives", contractLives},
		{"lists the base model", contractBaseModel},
		{"completes with ids and logprobs", contractCompletion},
		{"puts messages into its chat template", contractChat},
		{"scores given tokens", contractScore},
		{"repeats a seed", contractSeed},
		{"is greedy at temperature 0", contractGreedy},
		{"stops at a string", contractStop},
		{"chooses", contractChoice},
		{"matches a regex", contractRegex},
		{"derives from a grammar", contractGrammar},
		{"refuses what it cannot do", contractRefusals},
		{"tells an unknown model", contractUnknownModel},
		{"counts tokens", contractMetrics},
		{"frees what nobody waits for", contractDisconnect},
		{"says when it has too much to do", contractOverload},
		{"finds prefixes", contractPrefix},
		{"loads, serves and unloads adapters", contractAdapters},
		{"says what is wrong with an adapter", contractBadAdapters},
	} {
		t.Run(c.name, func(t *testing.T) { c.hold(t, x) }) // one after the other: some count
	}
}

func newTarget(t *testing.T) *target {
	t.Helper()
	x := &target{url: *engineURL, key: *engineKey, good: *goodAdapter, deep: *deepAdapter, queued: *maxQueued}
	if x.url == "" {
		x.simulate(t)
	}
	var err error
	if x.client, err = vllm.New(vllm.Config{BaseURL: x.url, Key: func() string { return x.key }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.client.Close)
	models, err := x.client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		if !m.Adapter() {
			x.model, x.maxLen = m.ID, m.MaxModelLen
			break
		}
	}
	return x
}

// simulate starts an engine of our own.
func (x *target) simulate(t *testing.T) {
	cfg := enginesim.DefaultConfig()
	cfg.APIKey, cfg.Speed, cfg.MaxLoRARank, cfg.MaxQueuedRequests = "secret", 20, 16, 8
	x.url, x.key, x.queued = startSim(t, cfg).url, cfg.APIKey, cfg.MaxQueuedRequests
	x.good, x.deep = writeAdapter(t, 8), writeAdapter(t, 64)
}

// sim is a simulated engine with its API on a loopback port.
type sim struct {
	*enginesim.Engine
	url string
}

func startSim(t *testing.T, cfg enginesim.Config) sim {
	t.Helper()
	engine, err := enginesim.New(cfg)
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
	return sim{engine, server.URL}
}

// ask is a request that any engine can serve.
func (x *target) ask(maxTokens int) rollout.Request {
	return rollout.Request{
		ID: "contract", Model: x.model, Prompt: "You are FRANCE in the spring of 1901. Your orders:", Seed: 7,
		Sampling: rollout.Sampling{Temperature: 0.8, TopP: 0.95, MaxTokens: maxTokens},
		Timeout:  rollout.Duration(2 * time.Minute),
	}
}

func (x *target) complete(t *testing.T, req rollout.Request) rollout.Completion {
	t.Helper()
	got, err := x.client.Complete(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func contractLives(t *testing.T, x *target) {
	if err := x.client.Health(t.Context()); err != nil {
		t.Error(err)
	}
	if v, err := x.client.Version(t.Context()); err != nil || v == "" {
		t.Errorf("version %q, %v", v, err)
	}
	if x.key == "" {
		return
	}
	stranger, err := vllm.New(vllm.Config{BaseURL: x.url, Key: func() string { return "wrong" }})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	if err := stranger.Health(t.Context()); err != nil {
		t.Errorf("health wants a key: %v", err)
	}
	_, err = stranger.Complete(t.Context(), x.ask(1))
	wantCode(t, err, rollout.CodeUnauthorized)
}

func contractBaseModel(t *testing.T, x *target) {
	models, err := x.client.Models(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		if m.ID == x.model && (m.Root == "" || m.MaxModelLen < 1) {
			t.Errorf("base model without root or length: %+v", m)
		}
	}
}

func contractCompletion(t *testing.T, x *target) {
	got := x.complete(t, x.ask(16))
	if len(got.TokenIDs) > 16 || got.FinishReason == rollout.FinishLength && len(got.TokenIDs) != 16 {
		t.Errorf("%d tokens of at most 16, finished by %s", len(got.TokenIDs), got.FinishReason)
	}
	one := x.complete(t, x.ask(1))
	if len(one.TokenIDs) != 1 {
		t.Errorf("%d tokens of at most 1", len(one.TokenIDs))
	}
	if !slices.Equal(one.PromptTokenIDs, got.PromptTokenIDs) {
		t.Error("the same prompt has other token ids")
	}
	var raw struct{ ID string }
	x.post(t, "/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"a","max_tokens":1}`, x.model), &raw)
	if raw.ID != "cmpl-given-id" {
		t.Errorf("id %q, want the X-Request-Id after cmpl-", raw.ID)
	}
}

// contractChat: messages are asked as the model's chat template has them, and the prompt's ids come back with the
// answer.
func contractChat(t *testing.T, x *target) {
	req := x.ask(8)
	req.Prompt = ""
	req.Messages = []rollout.Message{{Role: "user", Content: "first 17"}, {Role: "assistant", Content: "second 18"},
		{Role: "user", Content: "third 19"}}
	got := x.complete(t, req)
	text, err := x.client.Detokenize(t.Context(), x.model, got.PromptTokenIDs)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, m := range req.Messages {
		found := strings.Index(text[at:], m.Content)
		if found < 0 {
			t.Fatalf("the prompt %q lacks %q, or has it earlier", text, m.Content)
		}
		at += found
	}
	if text[at:] == req.Messages[2].Content {
		t.Errorf("the prompt %q has nothing after the last message: no word of whose turn it is", text)
	}
	if len(got.Logprobs) != len(got.TokenIDs) {
		t.Errorf("%d logprobs of %d tokens", len(got.Logprobs), len(got.TokenIDs))
	}
}

// contractScore: the logprobs of given tokens are those that they were sampled with.
func contractScore(t *testing.T, x *target) {
	req := x.ask(16)
	req.Sampling.Temperature, req.Sampling.TopP = 1, 1
	got := x.complete(t, req)
	scores, err := x.client.Score(t.Context(), x.model, slices.Concat(got.PromptTokenIDs, got.TokenIDs))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range got.Logprobs {
		if is := scores[len(got.PromptTokenIDs)-1+i]; math.Abs(is-float64(want)) > 0.02 {
			t.Errorf("token %d has logprob %.4f when it is sampled and %.4f when it is given", i, want, is)
		}
	}
	_, err = x.client.Score(t.Context(), "nobody-v9", got.TokenIDs)
	wantCode(t, err, rollout.CodeUnknownModel)
}

func contractSeed(t *testing.T, x *target) {
	first, again := x.complete(t, x.ask(24)), x.complete(t, x.ask(24))
	if !slices.Equal(first.TokenIDs, again.TokenIDs) {
		t.Errorf("one seed, two completions: %q and %q", first.Text, again.Text)
	}
	for seed := range int64(20) {
		req := x.ask(24)
		req.Seed = 100 + seed
		if !slices.Equal(x.complete(t, req).TokenIDs, first.TokenIDs) {
			return
		}
	}
	t.Error("twenty seeds, one completion")
}

func contractGreedy(t *testing.T, x *target) {
	req := x.ask(8)
	req.Sampling = rollout.Sampling{Temperature: 0, TopP: 1, MaxTokens: 8}
	first := x.complete(t, req)
	req.Seed++
	if second := x.complete(t, req); !slices.Equal(first.TokenIDs, second.TokenIDs) {
		t.Errorf("temperature 0 depends on the seed: %q and %q", first.Text, second.Text)
	}
}

func contractStop(t *testing.T, x *target) {
	req := x.ask(64)
	req.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: `(A PAR H;)(A MAR H;)(F BRE H;)`}
	req.Stop = []string{"A MAR"}
	got := x.complete(t, req)
	if got.FinishReason != rollout.FinishStop || got.Text != "A PAR H;" {
		t.Errorf("%q, finished by %s; want the text before the stop string", got.Text, got.FinishReason)
	}
}

func contractChoice(t *testing.T, x *target) {
	req := x.ask(32)
	choices := []string{"A PAR - BUR", "A PAR - PIC", "A PAR H"}
	req.Constraint = rollout.Constraint{Kind: rollout.ChoiceConstraint, Choices: choices}
	got := x.complete(t, req)
	if !slices.Contains(choices, got.Text) || got.FinishReason != rollout.FinishStop {
		t.Errorf("%q, finished by %s", got.Text, got.FinishReason)
	}
}

// ordersPattern is a regex of the kind and size that Diplomacy sends: a line per unit, each with all its legal orders.
func ordersPattern() string {
	var lines []string
	for _, unit := range []string{"A PAR", "A MAR", "F BRE", "A BUR", "F MAO", "A GAS", "A PIC"} {
		orders := []string{"H"}
		for _, to := range []string{"BUR", "PIC", "GAS", "MAR", "PAR", "BRE", "RUH", "BEL", "SPA", "POR", "ENG", "IRI", "NAO",
			"WES", "PIE", "MUN"} {
			orders = append(orders, "- "+to, "S A "+to, "S A "+to+" - BUR", "S F "+to+" - BEL")
		}
		lines = append(lines, regexp.QuoteMeta(unit)+" ("+strings.Join(orders, "|")+")")
	}
	return strings.Join(lines, "\n")
}

func contractRegex(t *testing.T, x *target) {
	req := x.ask(120)
	req.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: ordersPattern()}
	whole := regexp.MustCompile(`^(?:` + ordersPattern() + `)$`)
	for seed := range int64(5) {
		req.Seed = seed
		got := x.complete(t, req)
		if got.FinishReason != rollout.FinishStop || !whole.MatchString(got.Text) {
			t.Errorf("seed %d: %q, finished by %s, does not match", seed, got.Text, got.FinishReason)
		}
	}
}

func contractGrammar(t *testing.T, x *target) {
	req := x.ask(32)
	req.Constraint = rollout.Constraint{Kind: rollout.GrammarConstraint, Pattern: "root ::= unit \" \" order\nunit ::= " +
		"\"A PAR\" | \"F BRE\"\norder ::= \"H\" | \"- PIC\"\n"}
	got := x.complete(t, req)
	if !regexp.MustCompile(`^(A PAR|F BRE) (H|- PIC)$`).MatchString(got.Text) {
		t.Errorf("%q is not of the grammar", got.Text)
	}
}

func contractRefusals(t *testing.T, x *target) {
	bad := x.ask(8)
	bad.Constraint = rollout.Constraint{Kind: rollout.RegexConstraint, Pattern: `(unclosed`}
	_, err := x.client.Complete(t.Context(), bad)
	wantCode(t, err, rollout.CodeBadRequest)

	long := x.ask(8)
	long.Prompt = strings.Repeat("A PAR - BUR ", 40_000)
	_, err = x.client.Complete(t.Context(), long)
	wantCode(t, err, rollout.CodeBadRequest)
	if err != nil && !strings.Contains(err.Error(), "maximum context length") {
		t.Errorf("%v does not name the maximum context length", err)
	}

	status := x.post(t, "/v1/completions",
		fmt.Sprintf(`{"model":%q,"prompt":"a","structured_outputs":{"regex":"a","choice":["b"]}}`, x.model), nil)
	if status != http.StatusBadRequest {
		t.Errorf("two constraints: status %d, want 400", status)
	}
}

func contractUnknownModel(t *testing.T, x *target) {
	req := x.ask(1)
	req.Model = "contract-v999"
	_, err := x.client.Complete(t.Context(), req)
	wantCode(t, err, rollout.CodeUnknownModel)
}

func contractMetrics(t *testing.T, x *target) {
	before := x.sample(t)
	done := x.complete(t, x.ask(16))
	after := eventually(t, x, func(s vllm.Sample) bool {
		return s.GenerationTokens-before.GenerationTokens >= float64(len(done.TokenIDs)) && s.Running == 0
	})
	if prompt := after.PromptTokens - before.PromptTokens; prompt != float64(len(done.PromptTokenIDs)) {
		t.Errorf("the counter rose by %g prompt tokens, the answer has %d", prompt, len(done.PromptTokenIDs))
	}
	if output := after.GenerationTokens - before.GenerationTokens; output != float64(len(done.TokenIDs)) {
		t.Errorf("the counter rose by %g generated tokens, the answer has %d", output, len(done.TokenIDs))
	}
	finished := func(s vllm.Sample) float64 { return s.Finished["stop"] + s.Finished["length"] }
	if n := finished(after) - finished(before); n != 1 {
		t.Errorf("%g requests finished, want 1", n)
	}
}

// contractDisconnect: a request whose caller has left is not generated to its end.
func contractDisconnect(t *testing.T, x *target) {
	tokens := min(x.maxLen-64, 8000) // long enough to be seen running, on a slow machine, too
	before := x.sample(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := fmt.Sprintf(`{"model":%q,"prompt":"a","max_tokens":%d,"ignore_eos":true}`, x.model, tokens)
	req, err := x.request(ctx, "/v1/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			t.Error("the answer came before anybody could leave")
		}
	}()
	eventually(t, x, func(s vllm.Sample) bool { return s.Running > 0 })
	leave()
	<-left
	after := eventually(t, x, func(s vllm.Sample) bool { return s.Running == 0 })
	if n := after.GenerationTokens - before.GenerationTokens; n >= float64(tokens) {
		t.Errorf("%g tokens were generated for nobody", n)
	}
}

// contractOverload: an engine that holds all it may refuses the next request, and is well.
func contractOverload(t *testing.T, x *target) {
	if x.queued == 0 {
		t.Skip("no -max-queued")
	}
	ctx, leave := context.WithCancel(t.Context())
	var held sync.WaitGroup
	defer held.Wait()
	defer leave()
	for range x.queued {
		body := fmt.Sprintf(`{"model":%q,"prompt":"a","max_tokens":%d,"ignore_eos":true}`, x.model, min(x.maxLen-64, 8000))
		req, err := x.request(ctx, "/v1/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		held.Go(func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
				t.Errorf("status %d before anybody could leave", resp.StatusCode)
			}
		})
	}
	eventually(t, x, func(s vllm.Sample) bool { return s.Running+s.Waiting >= float64(x.queued) })
	_, err := x.client.Complete(t.Context(), x.ask(1))
	wantCode(t, err, rollout.CodeOverloaded)
	if err := x.client.Health(t.Context()); err != nil {
		t.Errorf("overloaded is not dead: %v", err)
	}
	leave()
	eventually(t, x, func(s vllm.Sample) bool { return s.Running+s.Waiting == 0 })
}

func contractPrefix(t *testing.T, x *target) {
	req := x.ask(1)
	req.Prompt = strings.Repeat("The board as it stands now: A PAR, A MAR, F BRE. ", 60) + t.Name()
	x.complete(t, req)
	req.Prompt += " One more line."
	if got := x.complete(t, req); got.CachedTokens == 0 {
		t.Errorf("no token of %d came from the prefix cache", len(got.PromptTokenIDs))
	}
	if s := x.sample(t); s.PrefixHits <= 0 || s.PrefixHits > s.PrefixQueries {
		t.Errorf("%g hits of %g queries", s.PrefixHits, s.PrefixQueries)
	}
}

func (x *target) sample(t *testing.T) vllm.Sample {
	t.Helper()
	s, err := x.client.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually asks for metrics until they are as wanted: an engine updates them when it gets to it.
func eventually(t *testing.T, x *target, ok func(vllm.Sample) bool) vllm.Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		s := x.sample(t)
		if ok(s) {
			return s
		}
		select {
		case <-time.After(25 * time.Millisecond): // a real engine shares its processor with its metrics
		case <-ctx.Done():
			t.Fatalf("the metrics stay at %+v", s)
		}
	}
}

// post sends a body as it is and decodes a good answer into v, if v is not nil.
func (x *target) post(t *testing.T, path, body string, v any) int {
	t.Helper()
	req, err := x.request(t.Context(), path, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if v != nil && resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
	}
	return resp.StatusCode
}

func (x *target) request(ctx context.Context, path, body string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(x.url, "/")+path,
		strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", "given-id")
	if x.key != "" {
		req.Header.Set("Authorization", "Bearer "+x.key)
	}
	return req, nil
}

func wantCode(t *testing.T, err error, code rollout.Code) {
	t.Helper()
	if rollout.CodeOf(err) != code {
		t.Errorf("got %v, want code %s", err, code)
	}
}
