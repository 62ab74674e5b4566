package enginesim

import (
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/simulate/enginesim/pseudolm"
)

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
	if e.cfg.Policy {
		if loaded.weights.Policy, err = readPolicy(path); err != nil {
			return err
		}
	}
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
