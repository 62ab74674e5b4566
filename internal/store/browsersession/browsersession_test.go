package browsersession_test

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/store/browsersession"
)

func TestASessionEndsWhenItIsEndedOrOld(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	one := browsersession.Store{Redis: client, Prefix: "m"}
	another := browsersession.Store{Redis: client, Prefix: "m"} // of another server
	token := browsersession.Digest{1, 2, 3}
	begin := func() string {
		id, err := one.Begin(t.Context(), token, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	known := func(id string) bool {
		got, found, err := another.Token(t.Context(), id)
		if err != nil || found && got != token {
			t.Fatalf("session %s is of %v: %v", id, got, err)
		}
		return found
	}
	ended, old := begin(), begin()
	if !known(ended) || !known(old) || known("guessed") || ended == old {
		t.Error("a session that was begun is not known, or one that was not")
	}
	if all := strings.Join(server.Keys(), " "); strings.Contains(all, ended) {
		t.Errorf("Redis holds the id of a session: %s", all)
	}
	if err := another.End(t.Context(), ended); err != nil || known(ended) || !known(old) {
		t.Errorf("a session that was ended goes on, or another has ended: %v", err)
	}
	server.FastForward(2 * time.Hour)
	if known(old) {
		t.Error("an old session goes on")
	}
	server.Close()
	if _, _, err := another.Token(t.Context(), old); err == nil {
		t.Error("nobody says that Redis does not answer")
	}
}
