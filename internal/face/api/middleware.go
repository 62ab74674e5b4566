package api

import (
	"bytes"
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/rollout"
)

// middleware wraps the routes: from the outside in, a request gets its id and its log line, survives a
// panic, must be from an allowed place and carry a token, and has its body read within limits.
func (s *Server) middleware(routes http.Handler) http.Handler {
	return s.observe(s.fence(s.readBody(tidyAccept(s.resolveNames(routes)))))
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
		if connection := connectionOf(r.Context()); connection != nil {
			defer connection.begin()()
		}
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

// fence refuses callers without access. Health needs no token, so that probes need no secret.
func (s *Server) fence(next http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := r.URL.Path == "/healthz" || r.URL.Path == "/readyz"
		switch {
		case open:
		case !s.auth.required() && !localHost(r.Host):
			// A page in a browser can point its own host name at 127.0.0.1.
			writeProblem(w, r, problem(codeForbidden,
				fmt.Sprintf("this server has no tokens and answers only to localhost, not to %q", r.Host)))
			return
		default:
			grant, refusal := s.auth.identify(r, s.deps.Now())
			if refusal != "" {
				s.unknown(w, r, refusal)
				return
			}
			callOf(r.Context()).grant = grant
		}
		if connection := connectionOf(r.Context()); connection != nil && !open {
			connection.welcome()
		}
		if err := origin.Check(r); err != nil {
			writeProblem(w, r, problem(codeForbidden, "a page of another origin may not change anything here"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unknown answers who has no valid token.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request, refusal string) {
	w.Header().Set("Connection", "close")
	if wait := s.unauthenticated.take(callOf(r.Context()).address, s.deps.Now()); wait > 0 {
		p := problem(codeOverloaded, "too many requests without a valid token from this address; "+refusal)
		p.header.Set("Retry-After", strconv.Itoa(int(wait.Seconds())+1))
		writeProblem(w, r, p)
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="millrace"`)
	writeProblem(w, r, problem(codeUnauthorized, refusal))
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
		most := s.bounds().MaxBodyBytes
		tooLarge := problem(codeTooLarge, fmt.Sprintf("a request's body may have %d bytes at most", most))
		if r.ContentLength > most {
			w.Header().Set("Connection", "close")
			writeProblem(w, r, tooLarge)
			return
		}
		// Errors of deadlines only mean that this connection has none, as in some tests.
		connection := http.NewResponseController(w)
		_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
		body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
		_ = connection.SetReadDeadline(time.Time{})
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			writeProblem(w, r, problem(codeTooSlow, fmt.Sprintf("the body did not arrive within %v", bodyTimeout)))
			return
		case err != nil:
			writeProblem(w, r, problem(codeMalformed, "the body could not be read: "+err.Error()))
			return
		case int64(len(body)) > most:
			w.Header().Set("Connection", "close")
			writeProblem(w, r, tooLarge)
			return
		}
		if fields := nulls(body); len(fields) > 0 && !judgesNulls(r) {
			p := problem(rollout.Invalid, "null is no value; leave the field out")
			for _, field := range fields {
				p.Errors = append(p.Errors, ProblemFault{Message: "null is no value; leave it out", Location: "body." + field})
			}
			writeProblem(w, r, p)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
			r.Header.Set("Content-Type", "application/json") // curl -d and urllib say something else by default
		}
		next.ServeHTTP(w, r)
	})
}

// judgesNulls reports whether a null has a meaning in a request's body, or is judged with the rest of it.
func judgesNulls(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/runs": // a spec is judged as a whole
		return true
	case fleetPath: // null gives a setting back to the configuration
		return r.Method == patch
	}
	return false
}

// nulls lists the fields of a JSON object that are null though the schema does not allow it. A null would count as left
// out, where the client may have meant to reset a setting.
func nulls(body []byte) []string {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil {
		return nil // the decoder reports the fault later
	}
	var fields []string
	for name, value := range object {
		if string(value) == "null" && name != "phases" && name != "metrics" {
			fields = append(fields, name)
		}
	}
	slices.Sort(fields)
	return fields
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
		writeProblem(w, r, problem(codeNoRoute,
			fmt.Sprintf("there is nothing at %s; GET /openapi.json lists every path", r.URL.Path)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeProblem(w, r, problem(codeMethod, fmt.Sprintf("%s does not take %s; use %s", r.URL.Path, r.Method,
		strings.Join(allowed, " or "))))
}

// writeProblem answers outside of huma.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	c := callOf(r.Context())
	p.RequestID, c.code = c.id, p.code
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

// A client must read each piece of an answer within this time, or the connection is cut. A batch of any size is
// delivered to a client that goes on reading.
const (
	writeTimeout = 30 * time.Second
	writePiece   = 64 << 10
)

// answerWriter remembers how a request was answered and gives each piece of the answer a deadline.
type answerWriter struct {
	http.ResponseWriter
	now      func() time.Time
	patience time.Duration // with the reader of one piece; 0: writeTimeout
	status   int
	bytes    int64
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
	total := 0
	for first := true; first || len(b) > 0; first = false {
		piece := b[:min(len(b), writePiece)]
		w.extend()
		n, err := w.ResponseWriter.Write(piece)
		total += n
		w.bytes += int64(n)
		if err != nil {
			return total, err
		}
		b = b[len(piece):]
	}
	return total, nil
}

// extend gives the client its time from now. The connection is the real world's, and so is its clock. A connection
// without deadlines, as in some tests, has none.
func (w *answerWriter) extend() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(cmp.Or(w.patience, writeTimeout)))
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
