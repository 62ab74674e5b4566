package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/kit/panics"
)

// made is a page that was made.
type made struct {
	kind string // its media type; empty: HTML
	body []byte
	tag  string
}

func newMade(kind string, body []byte) made {
	sum := sha256.Sum256(body)
	return made{kind: kind, body: body, tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

const (
	pageAge     = time.Second // for which a page is shown again as it is
	pageTimeout = 30 * time.Second
	pagesKept   = 256
	bytesKept   = 32 << 20
)

// fresh reports whether a page is shown again as it is.
var fresh = cache.Younger[made](pageAge)

// newPageCache keeps pages for a moment: many browsers may watch a run.
func newPageCache(survived panics.Watch) *cache.Cache[string, made] {
	return &cache.Cache[string, made]{Name: "page", Panics: survived, Timeout: pageTimeout, Most: bytesKept,
		Weigh: func(m made) int { return len(m.body) + bytesKept/pagesKept }}
}

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
