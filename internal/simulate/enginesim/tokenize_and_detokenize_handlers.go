package enginesim

import (
	"net/http"
)

// tokenize answers the tokens of a text, or of messages in this engine's chat template.
func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	var req struct {
		chat
		Model               string  `json:"model"`
		Prompt              *string `json:"prompt"`
		AddGenerationPrompt *bool   `json:"add_generation_prompt"`
	}
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	if _, err := e.adapters.lookUp(req.Model); err != nil {
		fail(w, err)
		return
	}
	var text string
	switch {
	case req.Messages != nil:
		text = req.template(req.AddGenerationPrompt == nil || *req.AddGenerationPrompt)
	case req.Prompt != nil:
		text = *req.Prompt
	default:
		fail(w, validation("body.prompt", "missing", "Field required"))
		return
	}
	ids := e.tokens.Encode(text)
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
