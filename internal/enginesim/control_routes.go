package enginesim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// pause stops generation: in-flight requests are aborted, waited for, or frozen. Requests that
// arrive while the engine is paused wait for resume.
func (e *Engine) pause(w http.ResponseWriter, r *http.Request) {
	mode := r.URL.Query().Get("mode")
	if mode == "" {
		mode = "abort"
	}
	if !slices.Contains([]string{"abort", "wait", "keep"}, mode) {
		fail(w, validation("query.mode", "literal_error", "Input should be \\'abort\\', \\'wait\\' or \\'keep\\'"))
		return
	}
	if err := e.loop.pause(r.Context(), mode); err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "paused"})
}

func (e *Engine) resume(w http.ResponseWriter, r *http.Request) {
	if err := e.loop.do(r.Context(), e.loop.resume); err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "resumed"})
}

func (e *Engine) isPaused(w http.ResponseWriter, r *http.Request) {
	var paused bool
	if err := e.loop.do(r.Context(), func() { paused = e.loop.paused }); err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"is_paused": paused})
}

// abortRequests takes the ids of requests as the engine knows them, ID-PROMPT; none means all.
func (e *Engine) abortRequests(w http.ResponseWriter, r *http.Request) {
	var req struct {
		IDs []string `json:"request_ids"`
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || json.Unmarshal(raw, &req) != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"detail": "Invalid JSON format"})
		return
	}
	aborted := len(req.IDs)
	err = e.loop.do(r.Context(), func() {
		if len(req.IDs) == 0 {
			aborted = e.loop.abortAll(nil)
			return
		}
		e.loop.abortNamed(req.IDs)
	})
	if err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"status": "aborted", "aborted": aborted})
}

// resetPrefixCache does nothing while requests hold blocks. It never resets running requests.
func (e *Engine) resetPrefixCache(w http.ResponseWriter, r *http.Request) {
	var done bool
	if err := e.loop.do(r.Context(), func() { done = e.loop.sched.ResetPrefix() }); err != nil {
		e.giveUp(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"success": done})
}

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

func (e *Engine) stats(w http.ResponseWriter, r *http.Request) {
	s, err := e.Stats(r.Context())
	if err != nil {
		e.simAnswer(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s)
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

// pause returns when the engine is paused: at once, or when what was running has ended.
func (l *loop) pause(ctx context.Context, mode string) error {
	drained := make(chan struct{})
	err := l.do(ctx, func() {
		l.paused = true
		switch mode {
		case "abort":
			l.abortAll(nil)
		case "keep":
			l.sched.SetPaused(l.now, true)
		}
		if mode == "wait" && len(l.live) > 0 {
			l.drained = append(l.drained, drained)
			return
		}
		close(drained)
	})
	if err != nil {
		return err
	}
	select {
	case <-drained:
		return nil
	case <-l.stopped:
		return errStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// resume lets frozen requests go on and those go in that came while paused.
func (l *loop) resume() {
	l.paused = false
	l.sched.SetPaused(l.now, false)
	parked := l.parked
	l.parked = nil
	for _, c := range parked {
		if err := l.enter(c); err != nil {
			l.refuse(c, err)
		}
	}
}

// refuse ends a call that never entered.
func (l *loop) refuse(c *call, reason error) {
	for _, g := range c.generations {
		g.aborted = true
		c.end(g, reason)
	}
}

func (l *loop) abortNamed(ids []string) {
	for _, g := range l.live {
		prompt := g.index / g.params.n
		if slices.Contains(ids, fmt.Sprintf("%s-%d", g.call.id, prompt)) {
			l.abortOne(g, nil)
		}
	}
}

// noteIdle tells those who wait for it that nothing is running any more.
func (l *loop) noteIdle() {
	if len(l.live) > 0 {
		return
	}
	for _, waiting := range l.drained {
		close(waiting)
	}
	l.drained = nil
}
