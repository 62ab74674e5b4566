package enginesim

import (
	"net/http"
	"strings"
)

// tokenize answers the tokens of a text, or of messages in ChatML, which is this engine's chat template.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model    string  `json:"model"`
		Prompt   *string `json:"prompt"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
		AddGenerationPrompt *bool `json:"add_generation_prompt"`
	}
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	if _, err := e.adapters.lookUp(req.Model); err != nil {
		fail(w, err)
		return
	}
	var text strings.Builder
	switch {
	case req.Messages != nil:
		for _, m := range req.Messages {
			text.WriteString("<|im_start|>" + m.Role + "\n" + m.Content + "<|im_end|>\n")
		}
		if req.AddGenerationPrompt == nil || *req.AddGenerationPrompt {
			text.WriteString("<|im_start|>assistant\n")
		}
	case req.Prompt != nil:
		text.WriteString(*req.Prompt)
	default:
		fail(w, validation("body.prompt", "missing", "Field required"))
		return
	}
	ids := e.tokens.Encode(text.String())
	writeJSON(w, http.StatusOK, map[string]any{"count": len(ids), "max_model_len": e.cfg.MaxModelLen, "tokens": ids})
}

func (e *Engine) detokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Model  string   `json:"model"`
		Tokens *[]int32 `json:"tokens"`
	}
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	if _, err := e.adapters.lookUp(req.Model); err != nil {
		fail(w, err)
		return
	}
	if req.Tokens == nil {
		fail(w, validation("body.tokens", "missing", "Field required"))
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": valid(e.tokens.Decode(*req.Tokens, false))})
}
