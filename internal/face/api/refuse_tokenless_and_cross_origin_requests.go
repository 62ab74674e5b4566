package api

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/millrace/millrace/internal/face/access"
)

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
			c := callOf(r.Context())
			c.grant, c.again = grant, func() (access.Grant, string) { return s.auth.identify(r, s.deps.Now()) }
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
