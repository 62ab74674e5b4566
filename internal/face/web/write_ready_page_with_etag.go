package web

import (
	"net/http"
	"strings"
	"time"
)

// write answers with a page, unless the browser has it.
func write(w http.ResponseWriter, r *http.Request, status int, page made) {
	secure(w.Header())
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", page.tag)
	extend(w)
	if status == http.StatusOK && r.Header.Get("If-None-Match") == page.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	if page.kind != "" {
		h.Set("Content-Type", page.kind)
	}
	if strings.HasPrefix(page.kind, "image/") {
		h.Set("Content-Security-Policy", drawing)
	}
	w.WriteHeader(status)
	_, _ = w.Write(page.body) // a browser that has gone needs no answer
}

// answerTimeout is how long a browser may take for a page.
const answerTimeout = 30 * time.Second

// extend gives the browser its time from now. A connection without deadlines, as in some tests, has none.
func extend(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}
