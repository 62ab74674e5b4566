package api

import (
	"fmt"
	"net/http"
	"strings"
)

// middleware wraps the routes: from the outside in, a request gets its id and its log line, survives a
// panic, is a program's or must be from an allowed place and carry a token, is for an engine, or has its body read
// within limits.
func (s *Server) middleware(routes http.Handler) http.Handler {
	return s.observe(s.answerPrograms(s.fence(s.answerVLLM(s.readBody(busy(tidyAccept(s.resolveNames(routes))))))))
}

// tidyAccept takes away an Accept header with a parameter of fewer than two characters, on which the content
// negotiation of huma v2.37.2 panics. Without the header the answer is JSON.
func tidyAccept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, accept := range r.Header.Values("Accept") {
			for kind := range strings.SplitSeq(accept, ",") {
				for i, parameter := range strings.Split(kind, ";") {
					if i > 0 && len(strings.TrimSpace(parameter)) < 2 {
						r.Header.Del("Accept")
					}
				}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// unmatched answers requests that no route takes: with the methods that this path does have, if any.
func (s *Server) unmatched(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{get, post, put, patch, remove} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 && strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, fmt.Sprintf("There is nothing at %s. The runs are at /", r.URL.Path), http.StatusNotFound)
		return
	}
	if len(allowed) == 0 {
		writeProblem(w, r, problem(codeNoRoute,
			fmt.Sprintf("there is nothing at %s; GET /openapi.json lists every path", r.URL.Path)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, r, problem(codeMethod, fmt.Sprintf("%s does not take %s; use %s", r.URL.Path, r.Method,
		strings.Join(allowed, " or "))))
}
