package web

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/face/access"
)

// A session that was ended at one server is over at the others within moments; while Redis does not answer, who is
// known stays, and nobody new is let in.
func TestSessionsAreThoseOfAllServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &sessions{by: map[string]access.Hash{}}
		here, there := newKnownSessions(store), newKnownSessions(store)
		token := access.HashOf("a token")
		id, _ := store.Begin(t.Context(), token, time.Hour)
		for _, server := range []*knownSessions{here, there} {
			if got, found, err := server.token(t.Context(), id); got != token || !found || err != nil {
				t.Errorf("%v, %v, %v", got, found, err)
			}
		}
		time.Sleep(2 * sessionFresh)
		store.down = errors.New("Redis does not answer")
		if got, found, err := here.token(t.Context(), id); got != token || !found || err != nil {
			t.Errorf("while Redis is away: %v, %v, %v", got, found, err)
		}
		if _, found, err := here.token(t.Context(), "another"); found || err == nil {
			t.Errorf("while Redis is away, somebody new: %v, %v", found, err)
		}
		if err := here.end(t.Context(), id); err == nil {
			t.Error("a session that could not be ended has ended")
		}
		store.down, store.by[id] = nil, token
		if _, found, _ := there.token(t.Context(), id); !found {
			t.Error("the session is not known any more")
		}
		if err := here.end(t.Context(), id); err != nil {
			t.Error(err)
		}
		if _, found, _ := here.token(t.Context(), id); found {
			t.Error("a session goes on where it was ended")
		}
		time.Sleep(2 * sessionFresh)
		if _, found, _ := there.token(t.Context(), id); found {
			t.Error("a session that was ended elsewhere goes on")
		}
	})
}
