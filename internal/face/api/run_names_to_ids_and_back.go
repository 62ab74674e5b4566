package api

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/runstatus"
)

// Users speak of runs by name; behind the API a run has an id, which differs from the name when the name was used
// before. Names become ids here, in paths, and in startRun; Server.shown turns ids back into names.

const runsPath = "/v1/runs/"

// resolveNames puts the id of the run that a path names in the place of its name.
func (s *Server) resolveNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		named, ok := strings.CutPrefix(r.URL.Path, runsPath)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		segment, rest, more := strings.Cut(named, "/")
		name := rollout.RunName(segment)
		if name.ValidateID() != nil { // the route's to refuse
			next.ServeHTTP(w, r)
			return
		}
		id, err := s.deps.Store.ID(r.Context(), name)
		if err != nil {
			var refused *Problem
			errors.As(s.fail(r.Context(), "look for a run", err), &refused) // every failure is a problem there
			writeProblem(w, r, refused)
			return
		}
		if id == name {
			next.ServeHTTP(w, r)
			return
		}
		resolved := r.Clone(r.Context()) // the log has the path as it was sent
		resolved.URL.Path = runsPath + string(id)
		if more {
			resolved.URL.Path += "/" + rest
		}
		resolved.URL.RawPath = ""
		if r.URL.RawPath != "" {
			_, escaped, _ := strings.Cut(strings.TrimPrefix(r.URL.RawPath, runsPath), "/")
			resolved.URL.RawPath = runsPath + url.PathEscape(string(id)) + "/" + escaped
		}
		next.ServeHTTP(w, resolved)
	})
}

// shown is a status as users see it: by the run's name, with the id beside it and the end of its retention.
func (s *Server) shown(status runstatus.RunStatus) runstatus.RunStatus {
	if s.bounds().Retention > 0 && status.State.Over() && !status.EndedAt.IsZero() {
		status.DeletesAt = status.EndedAt.Add(s.bounds().Retention)
	}
	status.ID = status.Spec.Name
	status.Spec.Name = status.ID.Plain()
	return status
}
