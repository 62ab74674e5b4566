package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/kit/panics"
)

// A page that is made again and again is held once: the cache is as large as what it holds, and keeps the others.
func TestPagesThatAreReplacedAreNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := pageCache{now: time.Now}
		times := map[string]int{}
		show := func(key string, size int) {
			t.Helper()
			_, err := c.of(t.Context(), key, func(context.Context) (page made, err error) {
				times[key]++
				return newMade("", make([]byte, size)), nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 40 {
			show("large", 1<<20)
			time.Sleep(2 * pageAge)
		}
		show("other", 1)
		if c.bytes != 1<<20+1 || len(c.by) != 2 {
			t.Errorf("%d bytes of %d pages are counted", c.bytes, len(c.by))
		}
		for i := range 33 {
			show(fmt.Sprint(i), 1<<20)
		}
		show("last", 1)
		if c.bytes > bytesKept+1<<20 {
			t.Errorf("%d bytes are held", c.bytes)
		}
		if times["large"] != 40 {
			t.Errorf("made %d times", times["large"])
		}
	})
}

// A page is made in a goroutine of its own, where nobody else would recover: it fails for who asked alone.
func TestAPageThatPanicsIsAProblem(t *testing.T) {
	t.Parallel()
	counted := 0
	s := newService(1)
	watch := panics.Watch{Log: slog.New(slog.DiscardHandler), Count: func(string) { counted++ }}
	c := pageCache{now: time.Now, panics: watch}
	_, err := c.of(t.Context(), "a", func(context.Context) (made, error) { panic("a record breaks it") })
	status, text := statusOf(err)
	if !errors.Is(err, panics.ErrBroken) || status != http.StatusInternalServerError || text == "" || counted != 1 {
		t.Errorf("%v is answered %d %q, %d counted", err, status, text, counted)
	}
	server := site(t, s)
	get(t, server, "/")
}
