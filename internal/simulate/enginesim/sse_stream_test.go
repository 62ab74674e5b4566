package enginesim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// events splits a stream; the last event must be [DONE].
func events(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatalf("event %q", event)
		}
		out = append(out, data)
	}
	if last := len(out) - 1; out[last] != "[DONE]" {
		t.Fatalf("the stream ends with %q", out[last])
	}
	return out[:len(out)-1]
}

func TestStreamEqualsWhole(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	for _, fields := range []string{
		`"prompt": ["A PAR", "F BRE"], "n": 2, "max_tokens": 20`,
		`"prompt": "x", "max_tokens": 30, "stop": ["e"]`,
		`"prompt": "x", "structured_outputs": {"choice": ["日本語 🎲 naïve"]}, "max_tokens": 60`,
	} {
		request := fmt.Sprintf(`{%s, "seed": 1, "logprobs": 1, "return_token_ids": true`, fields)
		whole := r.completion(request + "}")
		got := r.post("/v1/completions", request+`, "stream": true, "stream_options": {"include_usage": true}}`)
		if !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
			t.Fatalf("%d %s", got.status, got.body)
		}
		texts, tokens, offsets, reasons := map[int]string{}, map[int][]int32{}, map[int][]int{}, map[int]string{}
		var u *usage
		for _, event := range events(t, got.body) {
			var chunk completionResponse
			if err := json.Unmarshal([]byte(event), &chunk); err != nil {
				t.Fatal(err)
			}
			if chunk.Usage != nil {
				u = chunk.Usage
			}
			for _, c := range chunk.Choices {
				if len(c.Logprobs.Tokens) == 0 {
					t.Errorf("%s: an event without a token: %s", fields, event)
				}
				texts[c.Index] += c.Text
				tokens[c.Index] = append(tokens[c.Index], c.TokenIDs...)
				offsets[c.Index] = append(offsets[c.Index], c.Logprobs.TextOffset...)
				if c.FinishReason != nil {
					reasons[c.Index] = *c.FinishReason
				}
			}
		}
		if u == nil || u.CompletionTokens != whole.Usage.CompletionTokens || u.PromptTokens != whole.Usage.PromptTokens {
			t.Errorf("%s: usage %+v, want %+v", fields, u, whole.Usage)
		}
		for _, c := range whole.Choices {
			if texts[c.Index] != c.Text || fmt.Sprint(tokens[c.Index]) != fmt.Sprint(c.TokenIDs) ||
				reasons[c.Index] != *c.FinishReason {
				t.Errorf("%s, choice %d: %q by %s, want %q by %s", fields, c.Index, texts[c.Index], reasons[c.Index],
					c.Text, *c.FinishReason)
			}
		}
	}
}

func TestStreamOptionsNeedStream(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	got := r.post("/v1/completions", `{"prompt": "x", "stream_options": {"include_usage": true}}`)
	if got.status != 400 || !strings.Contains(got.body, "Stream options can only be defined when `stream=True`.") {
		t.Errorf("%d %s", got.status, got.body)
	}
}
