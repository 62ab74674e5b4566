package enginesim

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

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
	r := &registry{cfg: cfg, base: pseudolm.WeightsOf(cfg.Model), loading: map[string]*sync.Mutex{}}
	if cfg.Policy {
		r.base.Policy = new(pseudolm.Policy)
	}
	return r
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
