package axiom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom"
	"github.com/millrace/millrace/internal/telemetry/axiom/axiomtest"
)

func fact(n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(100, 0), Run: "demo", Key: fmt.Sprint(n),
		Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(n), Code: "stale"}}
}

func sample(n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(100, 0), Run: "demo", Key: fmt.Sprint(n),
		Body: telemetry.BufferLevel{Target: int64(n)}}
}

// ship runs a shipper to server until the test ends.
func ship(t *testing.T, server http.RoundTripper, change func(*axiom.Config)) *axiom.Shipper {
	t.Helper()
	cfg := axiom.Config{
		Token: "xaat-test", Dataset: "millrace", URL: "http://axiom.test",
		HTTPClient: &http.Client{Transport: server, Timeout: 30 * time.Second},
		Jitter:     func() float64 { return 1 },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := axiom.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	go s.Run(t.Context())
	t.Cleanup(s.Close)
	return s
}

// arrived checks that each of the first n facts is there, and returns how many events are there in all.
func arrived(t *testing.T, server *axiomtest.Server, n int) int {
	t.Helper()
	ids := map[any]int{}
	for _, e := range server.Events() {
		ids[e["event_id"]]++
	}
	for i := range n {
		if ids[fact(i).ID()] == 0 {
			t.Errorf("event %d did not arrive", i)
		}
	}
	return len(server.Events())
}

// TestDelivery sends ten events through every way of failing; all of them must arrive, unless Axiom refuses them.
func TestDelivery(t *testing.T) {
	t.Parallel()
	poison := func(e axiomtest.Event) string {
		if e["group_id"] == 3.0 {
			return "field limit exceeded"
		}
		return ""
	}
	server := func() *axiomtest.Server { return &axiomtest.Server{Token: "xaat-test", Dataset: "millrace"} }
	inTwoMinutes := func(s *axiomtest.Server) { s.Fail(axiomtest.Limited(429, time.Now().Add(2*time.Minute))) }
	for _, tt := range []struct {
		name     string
		arrange  func(*axiomtest.Server)
		within   time.Duration
		requests int // at most; 0: any
		rejected int64
		twice    bool
	}{
		{name: "all well", arrange: func(*axiomtest.Server) {}, within: 2 * time.Second, requests: 1},
		{name: "server errors", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Text(503, "busy"), axiomtest.Status(500, "oops"))
		}, within: 5 * time.Second, requests: 3},
		{name: "nobody listens", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Refuse(), axiomtest.Refuse())
		}, within: 5 * time.Second},
		{name: "hangs", arrange: func(s *axiomtest.Server) { s.Fail(axiomtest.Hang(time.Hour)) }, within: 35 * time.Second},
		{name: "rate limit", arrange: inTwoMinutes, within: 125 * time.Second, requests: 2},
		{name: "quota for a month: asks every five minutes", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Limited(430, time.Now().Add(20*24*time.Hour)))
		}, within: 302 * time.Second, requests: 2},
		{name: "limit told in plain text", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Text(429, "slow down"))
		}, within: 4 * time.Second, requests: 2},
		{name: "too large", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Status(413, "too large"))
		}, within: 2 * time.Second, requests: 3},
		{name: "answer lost", arrange: func(s *axiomtest.Server) {
			s.Fail(s.LoseAnswer())
		}, within: 4 * time.Second, twice: true},
		{name: "a few refused", arrange: func(s *axiomtest.Server) {
			s.Refuse = poison
		}, within: 2 * time.Second, requests: 1, rejected: 1},
		{name: "token refused for a while", arrange: func(s *axiomtest.Server) {
			s.Fail(axiomtest.Status(403, "forbidden"))
		}, within: 62 * time.Second, requests: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := server()
				tt.arrange(fake)
				s := ship(t, fake, nil)
				for n := range 10 {
					s.Emit(fact(n))
				}
				time.Sleep(tt.within)
				got := s.Stats()
				if got.Ingested+got.Rejected != 10 || got.Rejected != tt.rejected || got.Dropped != 0 || got.Degraded != "" {
					t.Errorf("stats %+v", got)
				}
				if tt.requests > 0 && fake.Requests() > tt.requests {
					t.Errorf("%d requests, want at most %d", fake.Requests(), tt.requests)
				}
				if tt.rejected > 0 {
					if got.LastError == "" {
						t.Error("refused, and nobody is told why")
					}
					return
				}
				if n := arrived(t, fake, 10); tt.twice != (n == 20) {
					t.Errorf("%d events arrived", n)
				}
			})
		})
	}
}

func TestOnePoisonedEventIsFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		s := ship(t, poisoned{fake}, nil)
		for n := range 100 {
			s.Emit(fact(n))
		}
		time.Sleep(2 * time.Second)
		got := s.Stats()
		if got.Ingested != 99 || got.Rejected != 1 {
			t.Errorf("stats %+v", got)
		}
	})
}

// poisoned answers 400 to every request that holds the event 42.
type poisoned struct{ *axiomtest.Server }

func (p poisoned) RoundTrip(r *http.Request) (*http.Response, error) {
	probe := &axiomtest.Server{}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	copied := r.Clone(r.Context())
	copied.Body = body
	if _, err := probe.RoundTrip(copied); err != nil {
		return nil, err
	}
	for _, e := range probe.Events() {
		if e["group_id"] == 42.0 {
			w := httptest.NewRecorder()
			axiomtest.Status(400, "cannot parse")(w, r)
			return w.Result(), nil
		}
	}
	return p.Server.RoundTrip(r)
}

func TestEmitNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{Token: "another"}
		s := ship(t, fake, func(c *axiom.Config) { c.Queue, c.BatchCount = 100, 10 })
		began := time.Now()
		for n := range 500 {
			s.Emit(sample(n))
			s.Emit(fact(n))
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("emitting took %v", took)
		}
		time.Sleep(time.Hour)
		got := s.Stats()
		if got.Degraded == "" || got.Ingested != 0 || got.Dropped < 880 {
			t.Errorf("stats %+v", got)
		}
		if fake.Requests() > 70 {
			t.Errorf("%d requests in an hour of refusals", fake.Requests())
		}
		began = time.Now()
		s.Close()
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("closing took %v", took)
		}
		if got := s.Stats(); got.Dropped != 1000 || got.Waiting != 0 {
			t.Errorf("closed with %+v; every event is accounted for", got)
		}
		s.Close()
	})
}

func TestCloseSendsWhatIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		fake.Fail(axiomtest.Status(500, "oops"))
		s := ship(t, fake, func(c *axiom.Config) { c.BatchCount = 7 })
		for n := range 100 {
			s.Emit(fact(n))
		}
		s.Close()
		if n := arrived(t, fake, 100); n != 100 {
			t.Errorf("%d events arrived", n)
		}
	})
}

// TestTimesAreUnique lets a refused event be found by its time, which is all that Axiom tells of it.
func TestTimesAreUnique(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		s := ship(t, fake, nil)
		for n := range 50 {
			s.Emit(fact(n))
		}
		time.Sleep(2 * time.Second)
		times := map[any]bool{}
		for _, e := range fake.Events() {
			times[e["_time"]] = true
		}
		if len(times) != 50 {
			t.Errorf("%d different times of 50 events", len(times))
		}
	})
}

// TestOverTheWire uses real connections, and no bubble.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Token: "xaat-test"}
	server := httptest.NewServer(fake)
	defer server.Close()
	s := ship(t, http.DefaultTransport, func(c *axiom.Config) { c.URL = server.URL })
	for n := range 1000 {
		s.Emit(fact(n))
	}
	s.Close()
	if n := arrived(t, fake, 1000); n != 1000 {
		t.Errorf("%d events arrived", n)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]axiom.Config{
		"no dataset":   {Token: "xaat-test"},
		"no token":     {Dataset: "millrace"},
		"a wrong kind": {Token: "secret", Dataset: "millrace"},
	} {
		if _, err := axiom.New(cfg); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
