package api

import (
	"context"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// readyTimeout bounds a readiness check, so that probes never pile up.
const readyTimeout = 3 * time.Second

// registerHealth adds what probes and scrapers ask for: plain text, outside of the documented API.
func (s *Server) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	if s.deps.Metrics != nil {
		mux.Handle("GET /metrics", s.deps.Metrics)
	}
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.stopping:
		writeProblem(w, r, problem(rollout.Unavailable, "the server is stopping"))
		return
	default:
	}
	if s.deps.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := s.deps.Ready(ctx); err != nil {
			s.deps.Log.Warn("not ready", "error", err)
			writeProblem(w, r, problem(rollout.Unavailable, "not ready; the server's log says what does not answer"))
			return
		}
	}
	plain(w, "ready\n")
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // A client that has gone needs no answer.
}
