package web

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/face/apiclient"
)

// visit is one request of a page: who asks, and how the API is asked for them.
type visit struct {
	r        *http.Request
	grant    access.Grant
	loggedIn bool // false: the server needs no token
	api      caller
	base     string // leads from the page to the root, as in "../", whatever a proxy has put before it
}

// cookieName is the cookie that holds the session. Browsers send it to this server alone, and from its own pages alone.
const cookieName = "millrace_session"

// sessionOf is the id of the browser's session; empty: it has none.
func sessionOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName)
	if err != nil || len(cookie.Value) > mostSessionID {
		return ""
	}
	return cookie.Value
}

const mostSessionID = 128

// baseOf leads from a path to the root.
func baseOf(path string) string {
	if depth := strings.Count(path, "/") - 1; depth > 0 {
		return strings.Repeat("../", depth)
	}
	return "./"
}

// visit is the request as that of somebody known; otherwise it has been answered.
func (s *Site) visit(w http.ResponseWriter, r *http.Request) (*visit, bool) {
	v := s.visitor(r)
	var refusal string
	if v.grant, refusal = s.deps.API.Grant(access.Hash{}); refusal == "" {
		return v, true // nobody needs a token
	}
	id := sessionOf(r)
	if id != "" {
		token, found, err := s.known.token(r.Context(), id)
		if err != nil {
			s.deps.Log.Warn("look a session up", "error", err)
			s.refuse(w, r, http.StatusServiceUnavailable, "Redis, which knows who is logged in, does not answer")
			return nil, false
		}
		if found {
			if v.grant, refusal = s.deps.API.Grant(token); refusal == "" {
				v.loggedIn, v.api.holder = true, token
				return v, true
			}
		}
		v.api.bearer = "the session " + id // guesses are counted by the API, wherever they are made
		var stop *apiclient.Problem
		if err := v.api.get(r.Context(), "/v1/status", nil); errors.As(err, &stop) &&
			stop.Status == http.StatusTooManyRequests {
			s.refuse(w, r, stop.Status, stop.Detail)
			return nil, false
		}
	}
	next := strings.TrimPrefix(r.URL.Path, "/")
	if r.Method != http.MethodGet {
		next = ""
	}
	redirect(w, v.base+"login?next="+next)
	return nil, false
}

func (s *Site) visitor(r *http.Request) *visit {
	return &visit{r: r, api: caller{api: s.deps.Handler, of: r}, base: baseOf(r.URL.Path)}
}

// redirect sends a browser elsewhere by a relative address, which holds behind any proxy.
func redirect(w http.ResponseWriter, to string) {
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	w.Header()["Location"] = []string{to}
	w.WriteHeader(http.StatusSeeOther)
}

// nextPattern is the pages that a login may lead to.
var nextPattern = regexp.MustCompile(`^(runs|engines)/[A-Za-z0-9@._/-]{1,200}$`)

func (s *Site) showLogin(w http.ResponseWriter, r *http.Request) {
	s.loginPage(w, r, http.StatusOK, "")
}

func (s *Site) loginPage(w http.ResponseWriter, r *http.Request, status int, refusal string) {
	v := s.visitor(r)
	next := r.FormValue("next")
	if !nextPattern.MatchString(next) {
		next = ""
	}
	_, needed := s.deps.API.Grant(access.Hash{})
	made, err := s.pages.make(v, content{template: "login", title: "Log in", data: struct {
		Next, Refusal string
		Needed        bool
	}{next, refusal, needed != ""}})
	if err != nil {
		s.sorry(w, v, err)
		return
	}
	write(w, r, status, made)
}

// login begins a session with a token that the API takes.
func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	v := s.visitor(r)
	v.api.bearer = strings.TrimSpace(r.PostFormValue("token"))
	if err := v.api.get(r.Context(), "/v1/status", nil); err != nil {
		status, text := statusOf(err)
		if status == http.StatusUnauthorized {
			text = "this server does not know that token, or it has expired; tokens are made by: millrace config token"
		}
		s.loginPage(w, r, status, text)
		return
	}
	id, err := s.deps.Sessions.Begin(r.Context(), access.HashOf(v.api.bearer), sessionAge)
	if err != nil {
		s.deps.Log.Warn("log in", "error", err)
		s.loginPage(w, r, http.StatusServiceUnavailable, "Redis, which knows who is logged in, does not answer; try again")
		return
	}
	http.SetCookie(w, s.cookie(r, id, sessionAge))
	next := r.PostFormValue("next")
	if !nextPattern.MatchString(next) {
		next = ""
	}
	redirect(w, v.base+next)
}

// logout ends the session, and has the browser forget it.
func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	if err := s.known.end(r.Context(), sessionOf(r)); err != nil {
		s.deps.Log.Warn("log out", "error", err)
		s.refuse(w, r, http.StatusServiceUnavailable, "Redis, which knows who is logged in, does not answer: the session "+
			"goes on; try again")
		return
	}
	http.SetCookie(w, s.cookie(r, "", -time.Second))
	w.Header().Set("Clear-Site-Data", `"cache"`)
	redirect(w, "./login")
}

// cookie has no path: a browser takes that of the login page, which may have a proxy's prefix.
func (s *Site) cookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, MaxAge: int(age.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// cacheKey is what the page that a visit is shown depends on.
func (v *visit) cacheKey() string {
	return v.grant.Name + "\x00" + string(v.grant.Role) + "\x00" + v.grant.Hash.String() + "\x00" + v.r.Host + "\x00" +
		v.r.URL.RequestURI()
}

// operates reports whether the visitor may change runs and engines.
func (v *visit) operates() bool { return v.grant.Role.Includes(access.Operator) }
