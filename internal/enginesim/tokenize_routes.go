package enginesim

import (
	"net/http"
)

type tokenizeRequest struct {
	Model      string  `json:"model"`
	Prompt     *string `json:"prompt"`
	ReturnStrs bool    `json:"return_token_strs"`
	chatRequest
}

func (e *Engine) tokenize(w http.ResponseWriter, r *http.Request) {
	var req tokenizeRequest
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
	case req.Prompt != nil:
		text = *req.Prompt
	case len(req.Messages) > 0:
		text = req.template()
	default:
		fail(w, validation("body.prompt", "missing", "Field required"))
		return
	}
	ids := e.tokens.Encode(text)
	body := map[string]any{"count": len(ids), "max_model_len": e.cfg.MaxModelLen, "tokens": ids, "token_strs": nil}
	if req.ReturnStrs {
		strs := make([]string, len(ids))
		for i, id := range ids {
			strs[i] = e.tokenText(id, false)
		}
		body["token_strs"] = strs
	}
	writeJSON(w, http.StatusOK, body)
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
