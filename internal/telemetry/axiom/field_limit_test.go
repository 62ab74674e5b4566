package axiom_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

// TestFieldLimitForTenMinutes loses nothing and calls nothing refused.
func TestFieldLimitForTenMinutes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"field limit exceeded", "cannot ingest"} {
		synctest.Test(t, func(t *testing.T) {
			fake := &axiomtest.Server{}
			until := time.Now().Add(10 * time.Minute)
			var asked atomic.Int32
			way := roundTrip(func(r *http.Request) (*http.Response, error) {
				if time.Now().After(until) {
					return fake.RoundTrip(r)
				}
				asked.Add(1)
				w := httptest.NewRecorder()
				axiomtest.Status(400, text)(w, r)
				return w.Result(), nil
			})
			d := deploy(t)
			for n := range 1000 {
				d.events.Emit(fact("demo", n))
			}
			d.server("a", way, nil)
			pass(9 * time.Minute)
			if got := d.events.now(); got.State != "parked" || got.Backlog != 1000 || asked.Load() > 180 {
				t.Errorf("%d requests, %+v", asked.Load(), got)
			}
			pass(3 * time.Minute)
			if got := d.events.now(); got.State != "ok" || got.Delivered != 1000 || len(arrived(fake)) != 1000 {
				t.Errorf("%+v; %d arrived", got, len(arrived(fake)))
			}
		})
	}
}

// TestFieldLimitOfSome delivers the events that need no new field, keeps the others, and delivers them when there is
// room: nobody has to ask for it.
func TestFieldLimitOfSome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		full.Store(true)
		fake := &axiomtest.Server{Refuse: func(e axiomtest.Event) string {
			if n, _ := e["group_id"].(float64); full.Load() && int(n)%4 == 3 {
				return "adding 1 fields to dataset millrace (x) would exceed its limit of 256 fields"
			}
			return ""
		}}
		d := deploy(t)
		for n := range 40 {
			d.events.Emit(fact("demo", n))
		}
		d.server("a", fake, nil)
		for n := range 25 {
			pass(time.Minute)
			d.events.Emit(fact("demo", 1000+4*n)) // life goes on
		}
		if got := d.events.now(); got.State != "ok" || len(d.events.letters) != 10 || len(arrived(fake)) != 30+24 {
			t.Errorf("while it is full: %d arrived, %+v", len(arrived(fake)), got)
		}
		full.Store(false)
		pass(25 * time.Minute)
		if len(d.events.letters) != 0 || len(arrived(fake)) != 40+25 {
			t.Errorf("when there is room: %d arrived, %d dead letters", len(arrived(fake)), len(d.events.letters))
		}
	})
}
