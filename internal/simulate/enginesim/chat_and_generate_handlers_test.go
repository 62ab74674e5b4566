package enginesim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// routeAnswer is what any route that asks the model answers.
type routeAnswer struct {
	ID             string
	RequestID      string `json:"request_id"`
	Object, Model  string
	PromptTokenIDs []int32 `json:"prompt_token_ids"`
	Choices        []struct {
		Index          int
		Text           string
		Message, Delta struct{ Role, Content string }
		FinishReason   string  `json:"finish_reason"`
		TokenIDs       []int32 `json:"token_ids"`
		PromptTokenIDs []int32 `json:"prompt_token_ids"`
		Logprobs       struct {
			Content []struct {
				Token   *string
				TokenID *int32 `json:"token_id"`
				Logprob float64
			}
			TokenLogprobs []float64 `json:"token_logprobs"`
		}
	}
	Usage *usage
}

// answers are those of a call, or the events of a stream.
func (r *rig) answers(path, body string) (all []routeAnswer) {
	r.t.Helper()
	got := r.post(path, body)
	if got.status != 200 {
		r.t.Fatalf("%s %s: %d %s", path, body, got.status, got.body)
	}
	parts := []string{got.body}
	if strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
		whole, ended := strings.CutSuffix(got.body, "data: [DONE]\n\n")
		if !ended {
			r.t.Errorf("a stream without end: %s", got.body)
		}
		parts = strings.Split(strings.TrimSuffix(whole, "\n\n"), "\n\n")
	}
	for _, part := range parts {
		var one routeAnswer
		if err := json.Unmarshal([]byte(strings.TrimPrefix(part, "data: ")), &one); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// TestRoutesAskOneModel: completions, chats and token ids are answered alike by the same prompt and seed, whole and as
// a stream, and the second of two samples is the first of the next seed.
func TestRoutesAskOneModel(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	const messages = `"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]`
	var rendered struct{ Tokens []int32 }
	if err := json.Unmarshal([]byte(r.post("/tokenize", `{`+messages+`}`).body), &rendered); err != nil {
		t.Fatal(err)
	}
	ids, _ := json.Marshal(rendered.Tokens)
	const sampling = `"seed": %d, "max_tokens": 12, "n": %d, "logprobs": 0`
	ask := func(seed, n int) string { return fmt.Sprintf(sampling, seed, n) }
	first := r.answers("/v1/completions", `{"return_token_ids": true, "prompt": `+string(ids)+`, `+ask(5, 1)+`}`)[0]
	second := r.answers("/v1/completions", `{"return_token_ids": true, "prompt": [`+string(ids)+`], `+ask(6, 1)+`}`)[0]
	for _, tt := range []struct {
		path, body, id, object string
	}{
		{"/v1/completions", `"return_token_ids": true, "prompt": ` + string(ids) + `, ` + ask(5, 2), "cmpl-", "text_completion"},
		{"/v1/chat/completions", `"return_token_ids": true, ` + messages + `, ` + strings.Replace(ask(5, 2), `"logprobs": 0`,
			`"logprobs": true`, 1), "chatcmpl-", "chat.completion"},
		{"/inference/v1/generate", `"token_ids": ` + string(ids) + `, "sampling_params": {` + ask(5, 2) + `}`, "", ""},
	} {
		for _, stream := range []string{"", `, "stream": true, "stream_options": {"include_usage": true}`} {
			all := r.answers(tt.path, `{`+tt.body+stream+`}`)
			last, got := all[len(all)-1], all[0].Choices
			if stream != "" {
				if len(all) != 3 || len(last.Choices) > 0 || len(all[1].Choices) != 1 || all[0].Usage != nil {
					t.Fatalf("%s: %+v", tt.path, all)
				}
				got = append(got, all[1].Choices...)
				tt.object = strings.Replace(tt.object, "chat.completion", "chat.completion.chunk", 1)
			}
			if all[0].ID+all[0].RequestID == "" || !strings.HasPrefix(all[0].ID, tt.id) || all[0].Object != tt.object ||
				last.Usage == nil || last.Usage.PromptTokens != len(rendered.Tokens) || last.Usage.CompletionTokens !=
				first.Usage.CompletionTokens+second.Usage.CompletionTokens {
				t.Errorf("%s: %+v", tt.path, all)
			}
			for i, one := range got {
				want := []routeAnswer{first, second}[i].Choices[0]
				said := one.Text + one.Message.Content + one.Delta.Content
				if one.Index != i || !slices.Equal(one.TokenIDs, want.TokenIDs) || one.FinishReason != want.FinishReason ||
					tt.id != "" && said != want.Text {
					t.Errorf("%s: sample %d is %+v, want %+v", tt.path, i, one, want)
				}
				for at, logprob := range want.Logprobs.TokenLogprobs {
					if c := one.Logprobs.Content; tt.object != "text_completion" && c[at].Logprob != logprob {
						t.Errorf("%s: token %d of sample %d: %v, want %v", tt.path, at, i, c[at], logprob)
					}
				}
				prompt := append(all[0].PromptTokenIDs, one.PromptTokenIDs...)
				if tt.id != "" && !slices.Equal(prompt[:len(rendered.Tokens)], rendered.Tokens) {
					t.Errorf("%s: of the prompt %v, want %v", tt.path, prompt, rendered.Tokens)
				}
			}
		}
	}
}

// TestTemplateGoesOn: a chat that goes on begins with the prompt before it and what the model said to that.
func TestTemplateGoesOn(t *testing.T) {
	t.Parallel()
	const said = "I look.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"
	const before = `"tools": [{"type": "function"}], "messages": [{"role": "user", "content": "Hi"}`
	render := func(body string) string {
		var c chat
		if err := json.Unmarshal([]byte("{"+body+"]}"), &c); err != nil {
			t.Fatal(err)
		}
		return c.template(true)
	}
	after := render(before + `, {"role": "assistant", "content": "I look.", "tool_calls": [{"function": {"name": "f",
		"arguments": "{\"x\": 1}"}}]}, {"role": "tool", "content": "7"}`)
	if want := render(before) + said + "<|im_end|>\n"; !strings.HasPrefix(after, want) {
		t.Errorf("it is %q, and does not begin with %q", after, want)
	}
}

// TestBadChats: what a chat cannot be, or is not simulated, is refused.
func TestBadChats(t *testing.T) {
	t.Parallel()
	r := start(t, fast())
	for body, want := range map[string]string{
		`{}`: "messages", `{"messages": 7}`: "body.messages", `{"max_tokens": "a"}`: `"param":"body.max_tokens"`,
		`{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`:        "image_url",
		`{"messages": [{"role": "user", "content": "x"}], "tools": [{"a": 1}]}`:       "`tools`",
		`{"messages": [{"role": "user", "content": "x"}], "top_logprobs": 3}`:         "`top_logprobs`",
		`{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1000000}`:     "max_model_len",
		`{"messages": [{"role": "user", "content": "x"}], "max_completion_tokens":0}`: "max_tokens must be at least 1",
	} {
		if got := r.post("/v1/chat/completions", body); got.status != 400 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for _, body := range []string{`{}`, `{"token_ids": [], "sampling_params": {}}`, `{"token_ids": [1], "sampling_params": 7}`,
		`{"token_ids": [-1]}`, `{"token_ids": [1], "sampling_params": {"logprobs": 2}}`} {
		if got := r.post("/inference/v1/generate", body); got.status != 400 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}
