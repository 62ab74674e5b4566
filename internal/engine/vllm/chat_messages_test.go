package vllm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/rollout"
)

// TestMessages: messages are sent as the tokens that the engine's chat template makes of them, and an answer is only
// taken if it is to these tokens.
func TestMessages(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[string]string{
		`{"count": 3, "max_model_len": 100, "tokens": [1, 2, 3]}`: "",
		`{"count": 2, "max_model_len": 100, "tokens": [1, 2]}`:    "3 prompt token ids that are not the 2 that were sent",
		`{"count": 0, "tokens": []}`:                              "has no tokens",
		`{"tokens": "1"}`:                                         "has no tokens",
		``:                                                        "this model has no chat template",
	} {
		var asked, prompt string
		c := engine(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.URL.Path == "/v1/completions":
				var got struct{ Prompt json.RawMessage }
				_ = json.Unmarshal(body, &got)
				prompt = string(got.Prompt)
				_, _ = io.WriteString(w, goodAnswer)
			case tokens == "":
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"error": {"message": "this model has no chat template", "type": "BadRequestError",
					"code": 400}}`)
			default:
				asked = string(body)
				_, _ = io.WriteString(w, tokens)
			}
		})
		req := request()
		req.Prompt, req.Messages = "", []rollout.Message{{Role: "user", Content: `"prompt":""`}}
		got, err := c.Complete(t.Context(), req)
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %s", tokens, err, want)
			}
		case err != nil || fmt.Sprint(got.PromptTokenIDs) != "[1 2 3]" || prompt != "[1,2,3]":
			t.Errorf("%s: prompt %s, %+v, %v", tokens, prompt, got, err)
		case asked != `{"add_generation_prompt":true,"messages":[{"role":"user","content":"\"prompt\":\"\""}],`+
			`"model":"demo-v3"}`:
			t.Errorf("asked %s", asked)
		}
	}
}
