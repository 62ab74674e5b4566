package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// middleware wraps the routes: from the outside in, a request gets its id and its log line, survives a
// panic, must be from an allowed place and carry a token, and has its body read within limits.
func (s *Server) middleware(routes http.Handler) http.Handler {
	return s.observe(s.fence(s.readBody(tidyAccept(routes))))
}

// tidyAccept takes away an Accept header with a parameter of fewer than two characters, on which the content negotiation
// of huma v2.37.2 panics. Without the header the answer is JSON.
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

type requestIDKey struct{}

// requestID is the id of the request that ctx belongs to.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

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
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		answer := &answerWriter{ResponseWriter: w, now: s.deps.Now}
		answer.Header().Set("X-Request-Id", id)
		answer.Header().Set("X-Content-Type-Options", "nosniff")
		started := s.deps.Now()
		defer func() {
			if cause := recover(); cause != nil && cause != http.ErrAbortHandler {
				s.deps.Log.Error("panic in a handler", "request_id", id, "cause", cause, "stack", string(debug.Stack()))
				if answer.status == 0 {
					writeProblem(answer, r, problem(codeInternal, "the server broke on this request; its log has the cause under this request_id"))
				}
			}
			s.deps.Log.LogAttrs(r.Context(), levelOf(answer.status), "request", slog.String("request_id", id), slog.String("method", r.Method),
				slog.String("path", r.URL.Path), slog.Int("status", answer.status), slog.Int64("bytes", answer.bytes),
				slog.Duration("took", s.deps.Now().Sub(started)))
		}()
		next.ServeHTTP(answer, r)
	})
}

// levelOf keeps polls and reads out of a log of normal verbosity.
func levelOf(status int) slog.Level {
	switch {
	case status >= 500:
		return slog.LevelWarn
	case status >= 400:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// fence keeps out who may not speak to the service. Health needs no token, so that probes need no secret.
func (s *Server) fence(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case open:
		case !s.auth.required() && !localHost(r.Host):
			// A page in a browser can point its own host name at 127.0.0.1.
			writeProblem(w, r, problem(codeForbidden, fmt.Sprintf("this server has no tokens and answers only to localhost, not to %q", r.Host)))
			return
		case !s.auth.allows(r.Header.Get("Authorization")):
			w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
			writeProblem(w, r, problem(codeUnauthorized, "send the header: Authorization: Bearer TOKEN, with one of the server's MILLRACE_TOKENS"))
			return
		}
		if err := origin.Check(r); err != nil {
			writeProblem(w, r, problem(codeForbidden, "a page of another origin may not change anything here"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func localHost(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return loopbackHost(strings.Trim(host, "[]"))
}

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// readBody reads the body before any route sees the request, so that its size and its slowness are judged in one
// place; a body that says it is too large is refused unread.
func (s *Server) readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		tooLarge := problem(codeTooLarge, fmt.Sprintf("a request's body may have %d bytes at most", s.cfg.MaxBodyBytes))
		if r.ContentLength > s.cfg.MaxBodyBytes {
			w.Header().Set("Connection", "close")
			writeProblem(w, r, tooLarge)
			return
		}
		// Errors of deadlines only mean that this connection has none, as in some tests.
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
		body, err := io.ReadAll(io.LimitReader(r.Body, s.cfg.MaxBodyBytes+1))
		_ = connection.SetReadDeadline(time.Time{})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			writeProblem(w, r, problem(codeTooSlow, fmt.Sprintf("the body did not arrive within %v", bodyTimeout)))
			return
		case err != nil:
			writeProblem(w, r, problem(codeMalformed, "the body could not be read: "+err.Error()))
			return
		case int64(len(body)) > s.cfg.MaxBodyBytes:
			w.Header().Set("Connection", "close")
			writeProblem(w, r, tooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
			r.Header.Set("Content-Type", "application/json") // What curl -d and urllib say when nobody tells them.
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
	if len(allowed) == 0 {
		writeProblem(w, r, problem(codeNoRoute, fmt.Sprintf("there is nothing at %s; GET /openapi.json lists every path", r.URL.Path)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, r, problem(codeMethod, fmt.Sprintf("%s does not take %s; use %s", r.URL.Path, r.Method, strings.Join(allowed, " or "))))
}

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	p.RequestID = requestID(r.Context())
	for name, values := range p.header {
		w.Header()[name] = values
	}
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // A Problem is strings and numbers.
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // A client that has gone needs no answer.
}

// writeTimeout bounds how long a client may take to read an answer, from its first byte; streams renew it.
const writeTimeout = time.Minute

// answerWriter remembers how a request was answered and gives each answer a deadline.
type answerWriter struct {
	http.ResponseWriter
	now    func() time.Time
	status int
	bytes  int64
}

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.extend()
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// extend gives the client writeTimeout from now. The connection is the real world's, and so is its clock.
func (w *answerWriter) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
