package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

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

// pageCache makes a page once for all who ask for it at about the same time: many browsers that watch a run are woken
// together.
type pageCache struct {
	now    func() time.Time
	panics panics.Watch
	mu     sync.Mutex
	by     map[string]*cachedPage
	bytes  int // of the pages in by
}

type cachedPage struct {
	ready chan struct{} // closed when the others are set
	made  made
	err   error
	at    time.Time
}

func (c *pageCache) of(ctx context.Context, key string, show func(context.Context) (made, error)) (made, error) {
	c.mu.Lock()
	one := c.by[key]
	if one == nil || !one.usable(c.now()) {
		if one != nil {
			c.bytes -= len(one.made.body) // it is replaced
		}
		if c.by == nil || len(c.by) >= pagesKept || c.bytes > bytesKept {
			c.by, c.bytes = map[string]*cachedPage{}, 0
		}
		one = &cachedPage{ready: make(chan struct{})}
		c.by[key] = one
		go c.fill(ctx, key, one, show)
	}
	c.mu.Unlock()
	select {
	case <-one.ready:
		return one.made, one.err
	case <-ctx.Done():
		return made{}, ctx.Err()
	}
}

// forget has every page made anew: something was changed.
func (c *pageCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by, c.bytes = nil, 0
}

func (c *pageCache) fill(ctx context.Context, key string, one *cachedPage,
	show func(context.Context) (made, error)) {
	ctx, cancel := within(ctx, pageTimeout)
	defer cancel()
	var page made
	err := c.panics.Catch("page", func() (err error) {
		page, err = show(ctx)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	one.made, one.err, one.at = page, err, c.now()
	if c.by[key] == one { // else it was forgotten meanwhile
		c.bytes += len(page.body)
	}
	close(one.ready)
}

func (p *cachedPage) usable(now time.Time) bool {
	select {
	case <-p.ready:
		return p.err == nil && now.Sub(p.at) < pageAge
	default:
		return true
	}
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
