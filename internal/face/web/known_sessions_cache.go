package web

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/access"
	"github.com/millrace/millrace/internal/kit/cache"
	"github.com/millrace/millrace/internal/kit/retry"
)

// knownSessions remembers the sessions of browsers that were here, so that the page needs no look at Redis for each
// request, and is shown while Redis does not answer.
type knownSessions struct {
	store Sessions
	cache cache.Cache[string, knownSession]
}

// knownSession is the token of a session; not found: there is no such session.
type knownSession struct {
	token access.Hash
	found bool
}

const (
	sessionAge      = 7 * 24 * time.Hour
	sessionFresh    = 5 * time.Second // that a session was ended at another server is known after this
	sessionPatience = 5 * time.Second // with Redis
	sessionsKept    = 10_000
)

func newKnownSessions(store Sessions) *knownSessions {
	return &knownSessions{store, cache.Cache[string, knownSession]{Name: "session", Timeout: sessionPatience,
		Most: sessionsKept}}
}

// token is the token of a session. While the store does not answer, its last answer holds.
func (k *knownSessions) token(ctx context.Context, id string) (token access.Hash, found bool, err error) {
	one, err := k.cache.Latest(ctx, id, cache.Younger[knownSession](sessionFresh), 2*sessionPatience,
		func(ctx context.Context) (one knownSession, err error) {
			one.token, one.found, err = k.store.Token(ctx, id)
			return one, err
		})
	if !one.found {
		k.cache.Forget(id)
	}
	return one.token, one.found, err
}

// whileLoggedIn is a context for what may stream for long: it is done when the visitor's session has ended, too.
func (s *Site) whileLoggedIn(v *visit) (ctx context.Context, leave func()) {
	ctx, cancel := context.WithCancel(v.r.Context())
	var watch sync.WaitGroup
	if v.loggedIn {
		watch.Go(func() {
			for retry.Pause(ctx, 3*sessionFresh) == nil {
				if _, found, err := s.known.token(ctx, sessionOf(v.r)); err == nil && !found {
					cancel()
				}
			}
		})
	}
	return ctx, func() {
		cancel()
		watch.Wait()
	}
}

// end ends a session, here at once and at other servers within moments.
func (k *knownSessions) end(ctx context.Context, id string) error {
	k.cache.Forget(id)
	return k.store.End(ctx, id)
}
