package enginesim

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/simulate/enginesim/tokenizer"
)

const orders = `A PAR (H|- (BUR|GAS|PIC|BRE))\nF BRE (H|- (ENG|MAO))\n`

func regexRequest(extra string) string {
	raw, _ := json.Marshal(orders)
	return fmt.Sprintf(`{"model": "qwen", "prompt": "FRANCE\n<orders>\n", "max_tokens": 64, "structured_outputs": {"regex": %s}%s}`, raw, extra)
}

func TestConstrainedCompletion(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	r.loadAdapter("run-v1")
	c := r.completion(strings.Replace(regexRequest(`, "logprobs": 0, "return_token_ids": true, "temperature": 0.8, "seed": 3`), "qwen", "run-v1", 1))
	choice := c.Choices[0]
	if !regexp.MustCompile(`\A`+orders+`\z`).MatchString(choice.Text) || *choice.FinishReason != "stop" ||
		choice.StopReason != nil {
		t.Errorf("%q ends by %s", choice.Text, *choice.FinishReason)
	}
	if c.Model != "run-v1" || c.Object != "text_completion" || !strings.HasPrefix(c.ID, "cmpl-") {
		t.Errorf("model %q, object %q, id %q", c.Model, c.Object, c.ID)
	}
	n := len(choice.TokenIDs)
	if n == 0 || len(choice.Logprobs.TokenLogprobs) != n || len(choice.Logprobs.Tokens) != n ||
		len(choice.Logprobs.TextOffset) != n || len(choice.Logprobs.TopLogprobs) != n {
		t.Fatalf("%d tokens, %+v", n, choice.Logprobs)
	}
	if choice.TokenIDs[n-1] != tokenizer.EOS || len(choice.PromptTokenIDs) != c.Usage.PromptTokens ||
		c.Usage.CompletionTokens != n {
		t.Errorf("tokens %v, usage %+v", choice.TokenIDs, c.Usage)
	}
	if got := tokenizer.New().Decode(choice.TokenIDs, true); got != choice.Text {
		t.Errorf("the tokens say %q, the text %q", got, choice.Text)
	}
	for i, l := range choice.Logprobs.TokenLogprobs {
		if l > 0 || math.IsNaN(l) {
			t.Errorf("token %d has log-probability %v", i, l)
		}
	}
}

func TestSeedsAreReproducible(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	ask := func(prompt string, seed int) []int32 {
		return r.completion(fmt.Sprintf(`{"prompt": %q, "seed": %d, "max_tokens": 40, "return_token_ids": true}`, prompt,
			seed)).Choices[0].TokenIDs
	}
	alone, beside := ask("x", 5), make(chan []int32)
	go func() { beside <- ask("y", 5) }()
	if again := ask("x", 5); !slices.Equal(alone, again) {
		t.Error("a seed gives another answer when another request is there")
	}
	if other := ask("x", 6); slices.Equal(alone, other) || slices.Equal(alone, <-beside) {
		t.Error("another seed or prompt gives the same answer")
	}
	a, b := r.completion(`{"prompt": "x", "max_tokens": 40}`), r.completion(`{"prompt": "x", "max_tokens": 40}`)
	if a.Choices[0].Text == b.Choices[0].Text {
		t.Error("unseeded requests repeat themselves")
	}
}

func TestPromptForms(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	text := r.completion(`{"prompt": "A PAR H\n", "seed": 1, "return_token_ids": true}`)
	raw, _ := json.Marshal(text.Choices[0].PromptTokenIDs)
	if got := r.completion(`{"prompt": ` + string(raw) + `, "seed": 1}`); got.Choices[0].Text != text.Choices[0].Text {
		t.Errorf("prompt %s gives another completion", raw)
	}
	if n := text.Usage.CompletionTokens; n > 16 {
		t.Errorf("%d tokens by default, want at most 16", n)
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	got := r.do("POST", "/v1/completions", `{"prompt": "x"}`, "X-Request-Id", "hdr")
	if !strings.Contains(got.body, `"id":"cmpl-hdr"`) || got.header.Get("X-Request-Id") != "hdr" {
		t.Errorf("not the request's id: %s", got.body)
	}
}

func TestStructuredOutputKinds(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	for constraint, pattern := range map[string]string{
		`"structured_outputs": {"choice": ["yes", "no"]}`:                                                `yes|no`,
		`"structured_outputs": {"regex": "[ab]{3}"}`:                                                     `[ab]{3}`,
		`"structured_outputs": {"regex": ""}`:                                                            ``,
		`"structured_outputs": {"grammar": "root ::= \"A \" place \" H\"\nplace ::= \"PAR\" | \"MAR\""}`: `A (PAR|MAR) H`,
		`"response_format": {"type": "text"}, "structured_outputs": {"choice": ["a"]}`:                   `a`,
	} {
		text := r.completion(`{"prompt": "x", ` + constraint + `}`).Choices[0].Text
		if !regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(text) {
			t.Errorf("%s gives %q", constraint, text)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	r := start(t, fast(func(c *Config) { c.MaxModelLen = 100 }))
	for _, tt := range []struct{ name, request, want string }{
		{"no prompt", `{}`, "Either prompt or prompt_embeds must be provided and non-empty."},
		{"max_tokens", `{"prompt": "x", "max_tokens": 0}`, "max_tokens must be at least 1, got 0. " +
			"(parameter=max_tokens, value=0)"},
		{"temperature", `{"prompt": "x", "temperature": -1}`, "temperature must be non-negative, got -1.0. " +
			"(parameter=temperature, value=-1.0)"},
		{"top_p", `{"prompt": "x", "top_p": 0}`, "top_p must be in (0, 1], got 0.0."},
		{"n", `{"prompt": "x", "n": 0}`, "n must be at least 1, got 0."},
		{"greedy n", `{"prompt": "x", "n": 2, "temperature": 0}`, "n must be 1 when using greedy sampling, got 2."},
		{"options of no stream", `{"prompt": "x", "stream_options": {"include_usage": true}}`, "Stream options can only be"},
		{"logprobs", `{"prompt": "x", "logprobs": 21}`, "does not support `logprobs`"},
		{"too long", `{"prompt": "x", "max_tokens": 100}`, "This model's maximum context length is 100 tokens."},
		{"longer than anything", `{"prompt": "x", "max_tokens": 101}`, "max_tokens=101 cannot be greater than " +
			"max_model_len=max_total_tokens=100."},
		{"no prompts", `{"prompt": []}`, "You must pass at least one prompt"},
		{"suffix", `{"prompt": "x", "suffix": "y"}`, "does not support `suffix`"},
		{"no choices", `{"prompt": "x", "structured_outputs": {"choice": []}}`, "Choice '[]' cannot be an empty list"},
		{"two constraints", `{"prompt": "x", "structured_outputs": {"regex": "a", "choice": ["a"]}}`,
			"You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."},
		{"bad regex", `{"prompt": "x", "structured_outputs": {"regex": "(a"}}`, "missing closing )"},
		{"beam search", `{"prompt": "x", "use_beam_search": true}`, "does not support `use_beam_search`"},
		{"echo", `{"prompt": "x", "echo": true}`, "does not support `echo`"},
		{"a penalty", `{"prompt": "x", "repetition_penalty": 1.2}`, "does not support `repetition_penalty`"},
		{"a schema", `{"prompt": "x", "structured_outputs": {"json": {"type": "string"}}}`, "supports no JSON"},
		{"a format", `{"prompt": "x", "response_format": {"type": "json_object"}}`, `\"json_object\" is not supported`},
		{"structural tag", `{"prompt": "x", "structured_outputs": {"structural_tag": "{}"}}`, "structural tags"},
	} {
		got := r.post("/v1/completions", tt.request)
		if got.status != 400 || !strings.Contains(got.body, tt.want) ||
			!strings.Contains(got.body, `"type":"BadRequestError"`) {
			t.Errorf("%s: %d %s", tt.name, got.status, got.body)
		}
	}
	neutral := `{"prompt": "x", "priority": 1, "repetition_penalty": 1, "presence_penalty": 0, "min_tokens": 0}`
	if c := r.completion(neutral); len(c.Choices) != 1 {
		t.Error("fields that change nothing are not ignored")
	}
	if got := r.post("/v1/completions", `{"prompt": "x", "max_tokens": "many"}`); !strings.Contains(got.body,
		`"param":"body.max_tokens"`) {
		t.Errorf("where the wrong type is: %s", got.body)
	}
	for _, malformed := range []string{`{"prompt": "x", "max_tokens": "many"}`, `{"prompt": {}}`, `{"prompt": ["a", "b"]}`, `{"prompt": [[1], [2]]}`,
		`{"prompt": "x", "stop": ["a", "b", "c", "d", "e"]}`, `{"prompt"`, "\x00\x01"} {
		if got := r.post("/v1/completions", malformed); got.status != 400 ||
			!strings.Contains(got.body, `"type":"Bad Request"`) {
			t.Errorf("%s: %d %s", malformed, got.status, got.body)
		}
	}
	if c := r.completion(`{"prompt": "x", "guided_regex": "aaa", "no_such_field": 1, "seed": 1}`); c.Choices[0].Text == "aaa" {
		t.Error("a removed field still works")
	}
}
