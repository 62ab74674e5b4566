package web

import (
	"net/http"
	"net/url"
)

// policy lets a page load its own files, and nothing else; nothing in a page's text is ever run or styled by itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// drawing is the policy of a picture: it has its own styles, and nothing else.
const drawing = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// secure sets what every answer has.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
}

// guarded lets only this server's own pages send a form. A browser says where a form is from; who says nothing is no
// browser, and has the API.
func (s *Site) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !ownPage(r) {
			s.refuse(w, r, http.StatusForbidden, "this did not come from a page of this server. Open the page anew and "+
				"repeat what you did; programs use the API, /v1")
			return
		}
		next(w, r)
	}
}

// ownPage reports whether a form was sent by a page of the server that gets it.
func ownPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && origin.Host == r.Host
}
