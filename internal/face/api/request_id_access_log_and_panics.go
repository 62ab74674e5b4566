package api

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
)

// cleanRequestID takes a client's own id when it is fit for headers and logs, or makes one.
func cleanRequestID(id string) string {
	fit := id != "" && len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == '\\'
	})
	if fit {
		return id
	}
	return rand.Text()
}

// observe names the request, logs how it ended and turns a panic into a problem.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := cleanRequestID(r.Header.Get("X-Request-Id"))
		c := &call{id: id, address: clientAddress(r, s.bounds().TrustedProxies)}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		answer := &answerWriter{ResponseWriter: w, now: s.deps.Now}
		answer.Header().Set("X-Request-Id", id)
		answer.Header().Set("X-Content-Type-Options", "nosniff")
		started := s.deps.Now()
		defer func() {
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
				s.deps.Panics.Note("request", cause, "request_id", id)
				if answer.status == 0 {
					writeProblem(answer, r, problem(codeInternal, "the server broke on this request; its log has the cause under "+
						"this request_id"))
				}
			}
			if refusedForAccessOrLoad(answer.status) {
				s.deps.OnRefusal(string(c.code))
			}
			s.deps.Log.LogAttrs(r.Context(), levelOf(answer.status), "request", slog.String("client", c.address),
				slog.String("who", c.grant.Name), slog.String("request_id", id), slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Int("status", answer.status), slog.Int64("bytes", answer.bytes),
				slog.Duration("took", s.deps.Now().Sub(started)))
		}()
		next.ServeHTTP(answer, r)
	})
}

// refusedForAccessOrLoad reports whether a request was refused for its sender or for the load, and not for its content.
func refusedForAccessOrLoad(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusTooManyRequests ||
		status == http.StatusServiceUnavailable
}

// levelOf keeps polls and reads out of the log at normal verbosity.
func levelOf(status int) slog.Level {
	switch {
	case status == http.StatusTooManyRequests: // there may be very many; they are counted
		return slog.LevelDebug
	case status >= 500:
		return slog.LevelWarn
	case status >= 400:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
