package web

import (
	"context"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/face/access"
)

// knownSessions remembers the sessions of browsers that were here, so that the page needs no look at Redis for each
// request, and is shown while Redis does not answer.
type knownSessions struct {
	store Sessions
	now   func() time.Time

	mu sync.Mutex
	by map[string]knownSession
}

// knownSession is a session as it was seen last.
type knownSession struct {
	token access.Hash
	at    time.Time
}

const (
	sessionAge   = 7 * 24 * time.Hour
	sessionFresh = 5 * time.Second // that a session was ended at another server is known after this
	sessionsKept = 10_000
)

// token is the token of a session. While the store does not answer, what it said last holds.
func (k *knownSessions) token(ctx context.Context, id string) (token access.Hash, found bool, err error) {
	k.mu.Lock()
	one, known := k.by[id]
	k.mu.Unlock()
	if known && k.now().Sub(one.at) < sessionFresh {
		return one.token, true, nil
	}
	token, found, err = k.store.Token(ctx, id)
	switch {
	case err != nil && known:
		return one.token, true, nil
	case err != nil:
		return token, false, err
	case !found:
		k.forget(id)
		return token, false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil || len(k.by) >= sessionsKept {
		k.by = map[string]knownSession{}
	}
	k.by[id] = knownSession{token, k.now()}
	return token, true, nil
}

func (k *knownSessions) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, id)
}

// end ends a session, here at once and at other servers within moments.
func (k *knownSessions) end(ctx context.Context, id string) error {
	k.forget(id)
	return k.store.End(ctx, id)
}
