// Package onevllm answers to the clients of a run as if its fleet were one vLLM: a trainer that makes its rollouts by
// itself, a benchmark, any client of OpenAI's API. What it is sent goes to an engine as it came, through the
// dispatcher, and so does the answer; of both only the names are changed by which a version of the run is called.
//
// What a client loads is published like any version: loading returns when the fleet serves it. A call keeps the
// version that its model's name stood for when it came, whichever engines it is tried at. Start reading at
// Handler.Serve, then call.relay and call.load.
package onevllm

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/engine/vllm"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
	"github.com/millrace/millrace/internal/rollout/runstatus"
	"github.com/millrace/millrace/internal/store/loranames"
)

// Fleet is the engines, as this process hands calls to them.
type Fleet interface {
	// Relay has an engine answer a call, by the model and within the bounds of a request.
	Relay(ctx context.Context, req rollout.Request, call *vllm.Relayed) error
	// Engines is every engine as it was seen last.
	Engines(ctx context.Context) ([]enginestate.Engine, error)
	// Client is for questions that are not a run's work.
	Client(e enginestate.Engine) (*vllm.Client, error)
	// Uses is how many calls of a run there are in all servers, waiting or at engines; model "": of any model.
	Uses(ctx context.Context, run rollout.RunName, model string) (int, error)
}

// Deps are what a Handler stands on.
type Deps struct {
	Fleet Fleet
	Names *loranames.Names
	// Status is that of the run that a name stands for now, or of one with this id. Its spec has the id.
	Status func(ctx context.Context, run rollout.RunName) (runstatus.RunStatus, error)
	// Publish returns when the version serves, or is refused.
	Publish func(ctx context.Context, run rollout.RunName, v rollout.PolicyVersion, path string) error
	Log     *slog.Logger
}

// Handler answers calls of any run.
type Handler struct {
	Deps
	runs    cache.Cache[rollout.RunName, runstatus.RunStatus]
	cards   cache.Cache[rollout.RunName, []vllm.Model]
	mu      sync.Mutex
	under   map[use]int                                  // calls that came and are not answered
	cancels map[*context.CancelCauseFunc]rollout.RunName // of calls at engines, or on their way
	loading map[rollout.RunName]*turn                    // of runs that publish now
}

// use is one version of a run, by the engines' name.
type use struct {
	run   rollout.RunName
	model string
}

// New makes a Handler.
func New(deps Deps) *Handler {
	h := &Handler{Deps: deps, under: map[use]int{}, loading: map[rollout.RunName]*turn{},
		cancels: map[*context.CancelCauseFunc]rollout.RunName{}}
	h.runs.Name, h.runs.Timeout, h.runs.Most = "run", askTimeout, keptRuns
	h.cards.Name, h.cards.Timeout, h.cards.Most = "models", askTimeout, keptRuns
	return h
}

// Bounds of what is asked again and again.
const (
	statusAge  = time.Second // of a run
	cardsAge   = time.Minute // of what engines say of their models
	askTimeout = 5 * time.Second
	keptRuns   = 128
	lookEvery  = 100 * time.Millisecond // while something is waited for
)

// call is one call.
type call struct {
	*Handler
	w      http.ResponseWriter
	r      *http.Request
	run    rollout.RunName
	path   string
	status runstatus.RunStatus
}

// routes is what a vLLM answers, by path. The first word of a value is the method; any for *.
var routes = map[string]struct {
	method string
	answer func(*call) error
}{
	"/health":                     {"*", (*call).health},
	"/ping":                       {"*", (*call).health},
	"/version":                    {http.MethodGet, (*call).version},
	"/v1/models":                  {http.MethodGet, (*call).models},
	"/server_info":                {http.MethodGet, (*call).serverInfo},
	"/metrics":                    {http.MethodGet, (*call).metrics},
	"/is_paused":                  {http.MethodGet, (*call).isPaused},
	"/pause":                      {http.MethodPost, (*call).pause},
	"/resume":                     {http.MethodPost, (*call).resume},
	"/v1/load_lora_adapter":       {http.MethodPost, (*call).load},
	"/load_lora_adapter":          {http.MethodPost, (*call).load}, // prime-rl's: always in place
	"/v1/unload_lora_adapter":     {http.MethodPost, (*call).unload},
	"/reset_prefix_cache":         {http.MethodPost, (*call).resetCache},
	"/v1/completions":             {http.MethodPost, (*call).relay},
	"/v1/chat/completions":        {http.MethodPost, (*call).relay},
	"/v1/chat/completions/tokens": {http.MethodPost, (*call).relay}, // prime-rl's
	generatePath:                  {http.MethodPost, (*call).relay},
	"/tokenize":                   {http.MethodPost, (*call).ask},
	"/detokenize":                 {http.MethodPost, (*call).ask},
	"/v1/completions/render":      {http.MethodPost, (*call).ask},
	"/v1/chat/completions/render": {http.MethodPost, (*call).ask},
}

// Serve answers one call for a run; path is what a client would ask of a vLLM. ctx ends with the client's patience, or
// with the server.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, run rollout.RunName, path string) {
	c := &call{Handler: h, w: w, r: r, run: run, path: strings.TrimSuffix(path, "/")}
	if err := c.answer(); err != nil && r.Context().Err() == nil {
		c.refuse(err)
	}
}

func (c *call) answer() error {
	route, known := routes[c.path]
	switch {
	case !known:
		return detail(http.StatusNotFound)
	case route.method != "*" && route.method != c.r.Method:
		return detail(http.StatusMethodNotAllowed)
	}
	var err error
	c.status, err = c.runs.Of(c.r.Context(), c.run, cache.Younger[runstatus.RunStatus](statusAge),
		func(ctx context.Context) (runstatus.RunStatus, error) { return c.Status(ctx, c.run) })
	if err != nil {
		return err
	}
	c.run = c.status.Spec.Name
	if c.status.State.Over() {
		return &fault{http.StatusNotFound, notFound, "run " + string(c.run.Plain()) + " is " + string(c.status.State) +
			": it answers nothing more"}
	}
	return route.answer(c)
}
