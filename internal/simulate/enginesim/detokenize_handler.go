package enginesim

import "net/http"

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
