package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/rollout"
)

// readyTimeout bounds a readiness check, so that probes never pile up.
const readyTimeout = 3 * time.Second

// registerHealth adds what probes and scrapers ask for, outside of the documented API; docs/security.md has its fields.
func (s *Server) registerHealth(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { plain(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /metrics", s.metrics)
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.stopping.Done():
		writeProblem(w, r, problem(rollout.Unavailable, "the server is stopping"))
		return
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.deps.Ready(ctx); err != nil {
		s.deps.Log.Warn("not ready", "error", err)
		writeProblem(w, r, problem(rollout.Unavailable, "not ready; the server's log says what does not answer"))
		return
	}
	// Without Temporal it still is: claims and records go on. Whether it answered when the server last looked is told.
	answer := map[string]bool{"ready": true, "temporal": s.deps.Temporal()}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that has gone needs no answer
}

func plain(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // A client that has gone needs no answer.
}

// metrics answers Prometheus, for callers who may see every run.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	if lacks := lacking(callOf(r.Context()).grant, operation{Role: access.Reader, Scope: ofFleet}, ""); lacks != "" {
		writeProblem(w, r, problem(codeForbidden, lacks))
		return
	}
	s.deps.Metrics.ServeHTTP(w, r)
}
