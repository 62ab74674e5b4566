package web

import (
	"net/http"
)

// sorry answers that a page cannot be shown, and why.
func (s *Site) sorry(w http.ResponseWriter, v *visit, err error) {
	status, text := statusOf(err)
	if status >= http.StatusInternalServerError {
		s.deps.Log.Warn("make a page", "path", v.r.URL.Path, "error", err)
	}
	s.problemPage(w, v, status, text)
}

// refuse answers a request that is nobody's.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	s.problemPage(w, s.visitor(r), status, text)
}

func (s *Site) problemPage(w http.ResponseWriter, v *visit, status int, text string) {
	page, err := s.pages.make(v, content{template: "problem", title: http.StatusText(status), data: struct {
		Status     int
		Text, Base string
	}{status, text, v.base}})
	if err != nil {
		s.deps.Log.Error("make the page that says what is wrong", "error", err)
		http.Error(w, text, status)
		return
	}
	write(w, v.r, status, page)
}
