package enginesim

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// simPrefix is where routes live that vLLM does not have.
const simPrefix = "/sim/"

// routes is the handler of the whole API. Routes that a flag leaves out do not exist.
func (e *Engine) routes() http.Handler {
	table := routeTable{}
	table.add("GET /health", e.health)
	table.add("GET /version", e.version)
	table.add("GET /metrics", e.scrape)
	table.add("GET /v1/models", e.models)
	table.add("POST /v1/completions", e.completions)
	table.add("POST /v1/chat/completions", e.chatCompletions)
	table.add("POST /inference/v1/generate", e.generate)
	table.add("POST /tokenize", e.tokenize)
	table.add("POST /detokenize", e.detokenize)
	if e.cfg.RuntimeLoRA {
		table.add("POST /v1/load_lora_adapter", e.loadLoRA)
		table.add("POST /v1/unload_lora_adapter", e.unloadLoRA)
	}
	if e.cfg.FaultRoute {
		table.add("POST "+simPrefix+"faults", e.injectFault)
		table.add("DELETE "+simPrefix+"faults", e.healFaults)
		table.add("POST "+simPrefix+"restart", e.restart)
	}
	return e.misbehave(e.authorise(e.nameRequests(table)))
}

// routeTable finds handlers by path and method, and answers for those that do not exist as
// FastAPI does.
type routeTable map[string]map[string]http.HandlerFunc

func (t routeTable) add(pattern string, h http.HandlerFunc) {
	method, path, _ := strings.Cut(pattern, " ")
	if t[path] == nil {
		t[path] = map[string]http.HandlerFunc{}
	}
	t[path][method] = h
}

func (t routeTable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, ok := t[r.URL.Path]
	if !ok {
		detail(w, http.StatusNotFound)
		return
	}
	h, ok := methods[r.Method]
	if !ok {
		detail(w, http.StatusMethodNotAllowed)
		return
	}
	h(w, r)
}

// authorise guards the paths that vLLM's --api-key guards, and no others.
func (e *Engine) authorise(next http.Handler) http.Handler {
	if e.cfg.APIKey == "" {
		return next
	}
	want := sha256.Sum256([]byte(e.cfg.APIKey))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1") || strings.HasPrefix(r.URL.Path, "/inference") {
			token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			got := sha256.Sum256([]byte(token))
			if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
				writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// nameRequests echoes requests' ids.
func (e *Engine) nameRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = e.randomID()
		}
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r)
	})
}
