package axiom_test

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
)

// TestFailover lets another server go on within seconds where one was killed, and lets the dead one, when it wakes,
// move nothing.
func TestFailover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		d := deploy(t)
		asleep := make(chan struct{})
		var frozen sync.Once
		d.server("a", roundTrip(func(r *http.Request) (*http.Response, error) {
			frozen.Do(func() { <-asleep })
			return fake.RoundTrip(r)
		}), nil)
		pass(time.Second)
		// The whole of a is frozen, as by SIGSTOP: it renews nothing. Only b reaches the store.
		b := newEvents()
		b.scopes, b.owner, b.until, b.fence = d.events.scopes, d.events.owner, d.events.until, d.events.fence
		for n := range 10 {
			d.events.Emit(fact("demo", n))
		}
		pass(1100 * time.Millisecond)
		d.events.mu.Lock()
		d.events.broken = func() error { return errRedis }
		d.events.mu.Unlock()
		second := &deployment{t: t, events: b, log: d.log}
		began := time.Now()
		second.server("b", fake, nil)
		for len(arrived(fake)) < 10 && time.Since(began) < time.Minute {
			pass(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("taken over after %v", took)
		}
		close(asleep)
		pass(time.Minute)
		if got := b.now(); got.Shipper != "b" || got.Delivered != 10 || b.fence < 2 {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneDelivers keeps a second server standing by, and lets it take over at once when the first one is stopped.
func TestOneDelivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		d := deploy(t)
		first := d.server("a", fake, nil)
		pass(time.Second)
		second := d.server("b", fake, nil)
		for n := range 100 {
			d.events.Emit(fact("demo", n))
			pass(100 * time.Millisecond)
		}
		if got := d.events.now(); got.Shipper != "a" || len(arrived(fake)) < 90 {
			t.Errorf("%d arrived, %+v", len(arrived(fake)), got)
		}
		d.events.Emit(fact("demo", 100))
		first.Close()
		if n := len(arrived(fake)); n != 101 {
			t.Errorf("%d arrived before the first server was gone", n)
		}
		d.events.Emit(fact("demo", 101))
		pass(2100 * time.Millisecond)
		if got := d.events.now(); got.Shipper != "b" || got.State != "ok" || got.Delivered != 102 {
			t.Errorf("%+v", got)
		}
		for id, n := range arrived(fake) {
			if n != 1 {
				t.Errorf("%s arrived %d times", id, n)
			}
		}
		second.Close()
		if got := d.events.now(); got.State != "stopped" {
			t.Errorf("%+v", got)
		}
	})
}
