package enginesim

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// faultRequest is a Fault with its duration written as text.
type faultRequest struct {
	Fault
	Every string `json:"every"`
}

func (e *Engine) injectFault(w http.ResponseWriter, r *http.Request) {
	var req faultRequest
	err := decode(w, r, &req)
	if err == nil && req.Every != "" {
		req.Fault.Every, err = time.ParseDuration(req.Every)
	}
	if err == nil {
		err = e.Inject(r.Context(), req.Fault)
	}
	e.simAnswer(w, err)
}

func (e *Engine) healFaults(w http.ResponseWriter, r *http.Request) {
	e.simAnswer(w, e.Heal(r.Context()))
}

// restart takes how long the engine is away as ?down=5s.
func (e *Engine) restart(w http.ResponseWriter, r *http.Request) {
	down, err := time.ParseDuration(r.URL.Query().Get("down"))
	if err == nil {
		err = e.Restart(r.Context(), down)
	}
	e.simAnswer(w, err)
}

// simAnswer answers a request to the simulation itself.
func (e *Engine) simAnswer(w http.ResponseWriter, err error) {
	var known *apiError
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.As(err, &known), errors.Is(err, errStopped), errors.Is(err, context.Canceled):
		e.giveUp(w, err)
	default:
		fail(w, badRequest("", "%v", err))
	}
}
