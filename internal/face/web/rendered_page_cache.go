package web

import (
	"crypto/sha256"
	"encoding/hex"
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
