package web

import (
	"net/http"

	"github.com/millrace/millrace/internal/face/apiclient"
)

// data serves the API's data of a page to a browser that has only its cookie. It is read-only and streams: a run's
// records may be larger than a server should buffer for a slow browser.
func (s *Site) data(w http.ResponseWriter, r *http.Request) {
	v, ok := s.visit(w, r)
	if !ok {
		return
	}
	path := "/v1/" + r.PathValue("path")
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	ctx, leave := s.whileLoggedIn(v)
	defer leave()
	req, err := v.api.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		s.sorry(w, v, &apiclient.Problem{Status: http.StatusBadRequest, Detail: err.Error()})
		return
	}
	secure(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	v.api.api.ServeHTTP(w, req) // each piece of the answer has the API's own deadline
}
