package enginesim

import "net/http"

func (e *Engine) models(w http.ResponseWriter, _ *http.Request) {
	data := []map[string]any{modelCard(e.cfg.Model, e.cfg.ModelPath, nil, e.cfg.MaxModelLen, e.created)}
	for _, a := range e.adapters.list() {
		data = append(data, modelCard(a.name, a.path, e.cfg.Model, nil, a.created))
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": data})
}

func modelCard(id, root string, parent, maxLen any, created int64) map[string]any {
	return map[string]any{
		"id": id, "object": "model", "created": created, "owned_by": "vllm",
		"root": root, "parent": parent, "max_model_len": maxLen,
		"permission": []map[string]any{{
			"id": "modelperm-" + id, "object": "model_permission", "created": created,
			"allow_create_engine": false, "allow_sampling": true, "allow_logprobs": true, "allow_search_indices": false,
			"allow_view": true, "allow_fine_tuning": false, "organization": "*", "group": nil, "is_blocking": false,
		}},
	}
}

func (e *Engine) health(http.ResponseWriter, *http.Request) {}

func (e *Engine) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": e.cfg.Version})
}
