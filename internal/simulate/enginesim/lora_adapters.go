package enginesim

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

// adapter is a LoRA that the API server knows.
type adapter struct {
	name, path string
	weights    pseudolm.Weights
	created    int64
}

// registry is what vLLM's API server remembers of adapters: names in the order of loading. It is
// lost on restart, and it says nothing of what the engine still has in memory.
type registry struct {
	cfg  Config
	base pseudolm.Weights

	mu       sync.Mutex
	restarts int // of the engine
	loaded   []*adapter
	loading  map[string]*sync.Mutex // one load or unload of a name at a time
}

func newRegistry(cfg Config) *registry {
	return &registry{
		cfg:     cfg,
		base:    pseudolm.WeightsOf(cfg.Model),
		loading: map[string]*sync.Mutex{},
	}
}

// lookUp finds what a request names. The base model is nil; an empty name means the base model.
func (r *registry) lookUp(name string) (*adapter, error) {
	if name == "" || name == r.cfg.Model {
		return nil, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.place(name); i >= 0 {
		return r.loaded[i], nil
	}
	return nil, &apiError{http.StatusNotFound, kindNotFound, "model", fmt.Sprintf("The model `%s` does not exist.", name)}
}

func (r *registry) place(name string) int {
	return slices.IndexFunc(r.loaded, func(a *adapter) bool { return a.name == name })
}

// list is the registered adapters, the first loaded first.
func (r *registry) list() []*adapter {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.loaded)
}

// clear is what a restart does. Loads that began before it come to nothing.
func (r *registry) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarts++
	r.loaded = nil
}

func (r *registry) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restarts
}

// put registers an adapter whose load began after so many restarts; false when that is over.
func (r *registry) put(a *adapter, restarts int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restarts != restarts {
		return false
	}
	r.drop(a.name)
	r.loaded = append(r.loaded, a)
	return true
}

// remove reports whether the name was known.
func (r *registry) remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drop(name)
}

func (r *registry) drop(name string) bool {
	i := r.place(name)
	if i >= 0 {
		r.loaded = slices.Delete(r.loaded, i, i+1)
	}
	return i >= 0
}

// lockName serialises loads and unloads of one name; the result unlocks.
func (r *registry) lockName(name string) func() {
	r.mu.Lock()
	l, ok := r.loading[name]
	if !ok {
		l = &sync.Mutex{}
		r.loading[name] = l
	}
	r.mu.Unlock()
	l.Lock()
	return l.Unlock
}

type loadRequest struct {
	Name    *string `json:"lora_name"`
	Path    *string `json:"lora_path"`
	Inplace bool    `json:"load_inplace"`
}

func (e *Engine) loadLoRA(w http.ResponseWriter, r *http.Request) {
	var req loadRequest
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	if err := e.load(r, req); err != nil {
		e.giveUp(w, err)
		return
	}
	writeText(w, fmt.Sprintf("Success: LoRA adapter '%s' added successfully.", *req.Name))
}

func (e *Engine) load(r *http.Request, req loadRequest) error {
	switch {
	case req.Name == nil:
		return validation("body.lora_name", "missing", "Field required")
	case req.Path == nil:
		return validation("body.lora_path", "missing", "Field required")
	case *req.Name == "" || *req.Path == "":
		return &apiError{http.StatusBadRequest, kindUserInput, "", "Both 'lora_name' and 'lora_path' must be provided."}
	}
	name, path := *req.Name, *req.Path
	if name == e.cfg.Model {
		return &apiError{http.StatusBadRequest, kindUserInput, "",
			fmt.Sprintf("The lora adapter '%s' conflicts with a served base model.", name)}
	}
	defer e.adapters.lockName(name)()
	restarts := e.adapters.now()
	if known, _ := e.adapters.lookUp(name); known != nil && !req.Inplace {
		return &apiError{http.StatusBadRequest, kindUserInput, "",
			fmt.Sprintf("The lora adapter '%s' has already been loaded. "+
				"If you want to load the adapter in place, set 'load_inplace' to True.", name)}
	}
	digest, err := readAdapter(name, path, e.cfg.MaxLoRARank)
	if err != nil {
		return err
	}
	if err := e.loop.load(r.Context(), name); err != nil {
		return err
	}
	loaded := &adapter{name: name, path: path, created: time.Now().Unix(),
		weights: pseudolm.WeightsOf(e.cfg.Model, name, path, digest)}
	if !e.adapters.put(loaded, restarts) {
		return http.ErrAbortHandler // the process that was asked is gone
	}
	return nil
}

func (e *Engine) unloadLoRA(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Name *string `json:"lora_name"`
	}
	if err := decode(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	switch {
	case req.Name == nil:
		fail(w, validation("body.lora_name", "missing", "Field required"))
		return
	case *req.Name == "":
		fail(w, &apiError{http.StatusBadRequest, kindUserInput, "", "'lora_name' needs to be provided to unload a " +
			"LoRA adapter."})
		return
	}
	defer e.adapters.lockName(*req.Name)()
	if !e.adapters.remove(*req.Name) {
		fail(w, &apiError{http.StatusNotFound, kindNotFound, "",
			fmt.Sprintf("The lora adapter '%s' cannot be found.", *req.Name)})
		return
	}
	writeText(w, fmt.Sprintf("Success: LoRA adapter '%s' removed successfully.", *req.Name))
}

func writeText(w http.ResponseWriter, text string) {
	w.Header()["Content-Type"] = nil // vLLM says none; a value would be guessed
	_, _ = w.Write([]byte(text))     // a client that left is noticed by its context
}

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
