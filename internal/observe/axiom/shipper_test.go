package axiom_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/observe/axiom"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
)

func fact(run rollout.RunName, n int) telemetry.Event {
	return telemetry.Event{At: time.Unix(100, 500), Run: run, Key: fmt.Sprint(n),
		Body: telemetry.GroupDropped{Seq: rollout.GroupSeq(n), Code: "stale"}}
}

// said is what a shipper has logged.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *said) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.FieldsFunc(s.text.String(), func(r rune) bool { return r == '\n' })
}

// pass lets time pass, and everybody do what he does by then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// deployment is an event store, an Axiom, and servers that deliver from one to the other.
type deployment struct {
	t      *testing.T
	events *events
	log    *said
}

func deploy(t *testing.T) *deployment {
	return &deployment{t: t, events: newEvents(), log: &said{}}
}

// server starts one that delivers, over a way to Axiom.
func (d *deployment) server(owner string, way http.RoundTripper, change func(*axiom.Config)) *axiom.Shipper {
	d.t.Helper()
	cfg := axiom.Config{Token: "xaat-test", Dataset: "millrace", URL: "http://axiom.test", Transport: way,
		Jitter: func() float64 { return 1 }}
	if change != nil {
		change(&cfg)
	}
	s, err := axiom.New(cfg, d.events, owner, slog.New(slog.NewTextHandler(d.log, nil)), telemetry.Discard)
	if err != nil {
		d.t.Fatal(err)
	}
	s.Start(context.Background())
	d.t.Cleanup(s.Close)
	return s
}

// arrived counts how often each event_id is there.
func arrived(server *axiomtest.Server) map[string]int {
	ids := map[string]int{}
	for _, e := range server.Events() {
		ids[fmt.Sprint(e["event_id"])]++
	}
	return ids
}

// TestEveryAnswer delivers ten facts through every way of failing: what is seen after one attempt, when all have
// arrived, and in how many requests.
func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	header := func(status int, h map[string]string, body string) axiomtest.Fault {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for name, value := range h {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	repeat := func(n int, f axiomtest.Fault) []axiomtest.Fault {
		out := make([]axiomtest.Fault, n)
		for i := range out {
			out[i] = f
		}
		return out
	}
	for _, tt := range []struct {
		name     string
		faults   []axiomtest.Fault
		broken   error               // why the first request does not reach Axiom
		state    telemetry.SinkState // after the first attempt
		reason   string
		advice   string
		after    time.Duration // when that is looked at; 100 ms
		within   time.Duration
		requests int
	}{
		{name: "all well", state: "ok", within: time.Second, requests: 1},
		{name: "server errors", faults: repeat(2, axiomtest.Text(503, "busy")), state: "retrying", reason: "503: busy",
			within: 4 * time.Second, requests: 3},
		{name: "gateway", faults: repeat(1, header(502, map[string]string{"Content-Type": "text/html"}, "<html>")),
			state: "retrying", reason: "502", within: 2 * time.Second, requests: 2},
		{name: "nobody listens", faults: repeat(2, axiomtest.Refuse()), state: "retrying", reason: "refused",
			within: 4 * time.Second, requests: 3},
		{name: "no such host", broken: &net.DNSError{Err: "no such host", Name: "axiom.test"},
			state: "retrying", reason: "no such host", within: 2 * time.Second, requests: 1},
		{name: "certificate of nobody", broken: x509.UnknownAuthorityError{}, state: "degraded",
			reason: "unknown authority", advice: "SSL_CERT_FILE", within: 2 * time.Second, requests: 1},
		{name: "hangs", faults: repeat(1, axiomtest.Hang(time.Hour)), state: "retrying", reason: "deadline",
			after: 30500 * time.Millisecond, within: 33 * time.Second, requests: 2},
		{name: "answer lost", faults: nil, state: "retrying", reason: "502", within: 2 * time.Second, requests: 2},
		{name: "429 with everything", faults: repeat(1, axiomtest.Limited(429, time.Time{}.Add(time.Hour))), state: "limited",
			reason: "429", within: 2 * time.Second, requests: 2},
		{name: "429 with Retry-After", faults: repeat(1, header(429, map[string]string{"Retry-After": "90"}, "slow down")),
			state: "limited", reason: "slow down", within: 91 * time.Second, requests: 2},
		{name: "429 in text alone, for long", faults: repeat(6, axiomtest.Text(429, "slow down")), state: "limited",
			within: 64 * time.Second, requests: 7},
		{name: "430", faults: repeat(1, header(430, nil, `{"message":"quota"}`)), state: "limited", reason: "430: quota",
			advice: "plan", within: 2 * time.Second, requests: 2},
		{name: "401", faults: repeat(1, axiomtest.Status(401, "expired")), state: "degraded", reason: "401: expired",
			advice: "AXIOM_TOKEN", within: 61 * time.Second, requests: 2},
		{name: "403", faults: repeat(1, axiomtest.Status(403, "forbidden")), state: "degraded", reason: "403: forbidden",
			advice: "AXIOM_TOKEN", within: 61 * time.Second, requests: 2},
		{name: "404", faults: repeat(1, axiomtest.Status(404, "no dataset")), state: "degraded", reason: "404: no dataset",
			advice: "dataset", within: 61 * time.Second, requests: 2},
		{name: "a login page", faults: repeat(1, header(200, map[string]string{"Content-Type": "text/html"}, "<html>")),
			state: "degraded", reason: "not Axiom", advice: "AXIOM_URL", within: 61 * time.Second, requests: 2},
		{name: "moved", faults: repeat(1, header(301, map[string]string{"Location": "http://evil.test"}, "")),
			state: "degraded", reason: "301", advice: "AXIOM_URL", within: 61 * time.Second, requests: 2},
		{name: "413", faults: repeat(1, axiomtest.Status(413, "too large")), state: "ok", within: time.Second, requests: 3},
		{name: "400 to everything", faults: repeat(9, axiomtest.Status(400, "bad")), state: "parked", reason: "400: bad",
			advice: "nothing is given up", within: 61 * time.Second, requests: 10},
		{name: "the field limit", faults: repeat(1, axiomtest.Status(400, "field limit exceeded")), state: "parked",
			reason: "field limit", advice: "vacuum", within: 61 * time.Second, requests: 2},
		{name: "less is accounted for than was sent",
			faults: repeat(1, header(200, nil, `{"ingested":4,"failed":0}`)), state: "retrying", reason: "4 taken and 0 refused of 10",
			within: 2 * time.Second, requests: 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := &axiomtest.Server{Token: "xaat-test", Dataset: "millrace"}
				fake.Fail(tt.faults...)
				if tt.name == "answer lost" {
					fake.Fail(fake.LoseAnswer())
				}
				d := deploy(t)
				for n := range 10 {
					d.events.Emit(fact("demo", n))
				}
				failing := tt.broken
				d.server("a", roundTrip(func(r *http.Request) (*http.Response, error) {
					if err := failing; err != nil {
						failing = nil
						return nil, err
					}
					return fake.RoundTrip(r)
				}), nil)
				pass(max(tt.after, 100*time.Millisecond))
				if got := d.events.now(); tt.state != "ok" && (got.State != tt.state || !strings.Contains(got.Reason, tt.reason) ||
					!strings.Contains(got.Advice, tt.advice) || got.NextTry.IsZero()) {
					t.Errorf("after the first attempt: %+v", got)
				}
				pass(tt.within)
				got := d.events.now()
				if got.State != "ok" || got.Delivered != 10 || got.DeadLettered != 0 || got.Backlog != 0 || got.Reason != "" {
					t.Errorf("in the end: %+v", got)
				}
				for n := range 10 {
					if arrived(fake)[fact("demo", n).ID()] == 0 {
						t.Errorf("fact %d did not arrive", n)
					}
				}
				if fake.Requests() > tt.requests {
					t.Errorf("%d requests, want at most %d", fake.Requests(), tt.requests)
				}
				if n := len(d.log.lines()); tt.state != "ok" && n != 2 {
					t.Errorf("%d lines logged, want one when it began and one when it ended:\n%s", n,
						strings.Join(d.log.lines(), "\n"))
				}
			})
		})
	}
}

// TestLimitsForAnHour asks less and less often while the limit says nothing of use, however it says it.
func TestLimitsForAnHour(t *testing.T) {
	t.Parallel()
	const reset = "X-RateLimit-Reset"
	for name, h := range map[string]func(now time.Time) (string, string){
		"no header":             func(time.Time) (string, string) { return "X-None", "" },
		"reset in the past":     func(now time.Time) (string, string) { return reset, fmt.Sprint(now.Unix() - 60) },
		"reset in a second":     func(now time.Time) (string, string) { return reset, fmt.Sprint(now.Unix() + 1) },
		"Retry-After: 0":        func(time.Time) (string, string) { return "Retry-After", "0" },
		"Retry-After: nonsense": func(time.Time) (string, string) { return "Retry-After", "soon" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				way := roundTrip(func(r *http.Request) (*http.Response, error) {
					asked.Add(1)
					w := httptest.NewRecorder()
					w.Header().Set(h(time.Now()))
					w.WriteHeader(429)
					return w.Result(), nil
				})
				d := deploy(t)
				d.events.Emit(fact("demo", 1))
				d.server("a", way, nil)
				pass(time.Hour)
				if asked.Load() > 20 {
					t.Errorf("%d requests in an hour", asked.Load())
				}
				if got := d.events.now(); got.State != "limited" || got.LagSec < 3500 || got.Backlog != 1 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRefusedEvents keeps what is refused beside others that pass, each with its reason, and nothing else.
func TestRefusedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{Refuse: func(e axiomtest.Event) string {
			if n, _ := e["group_id"].(float64); int(n)%10 == 3 {
				return fmt.Sprintf("no good: %v", n)
			}
			return ""
		}}
		d := deploy(t)
		for n := range 40 {
			d.events.Emit(fact("demo", n))
		}
		d.server("a", fake, nil)
		pass(2 * time.Second)
		if got := d.events.now(); got.State != "ok" || got.Delivered != 36 || got.DeadLettered != 4 {
			t.Errorf("%+v", got)
		}
		if len(d.events.letters) != 4 {
			t.Fatalf("%d dead letters", len(d.events.letters))
		}
		for _, l := range d.events.letters {
			e, err := l.Event()
			if err != nil {
				t.Fatal(err)
			}
			if body := e.Body.(telemetry.GroupDropped); l.reason != fmt.Sprintf("no good: %d", body.Seq) {
				t.Errorf("group %d: %s", body.Seq, l.reason)
			}
		}
		if log := strings.Join(d.log.lines(), "\n"); !strings.Contains(log, "dead-letters") {
			t.Errorf("nobody is told: %s", log)
		}
	})
}

// TestNoRoomForDeadLetters waits rather than give a fact up.
func TestNoRoomForDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{Refuse: func(e axiomtest.Event) string {
			if n, _ := e["group_id"].(float64); n < 5 {
				return "no good"
			}
			return ""
		}}
		d := deploy(t)
		d.events.room = 3
		for n := range 40 {
			d.events.Emit(fact("demo", n))
		}
		d.server("a", fake, nil)
		pass(time.Minute)
		if got := d.events.now(); got.State != "parked" || !strings.Contains(got.Advice, "drop") || d.events.backlog() != 40 {
			t.Errorf("%+v", got)
		}
		d.events.mu.Lock()
		d.events.room = 100
		d.events.mu.Unlock()
		pass(time.Minute)
		if got := d.events.now(); got.State != "ok" || got.Delivered != 35 || got.DeadLettered != 5 {
			t.Errorf("%+v", got)
		}
	})
}

// TestEverySwitch has each fault of the fake on for ten minutes, while new facts come, and then off: all that was
// written arrives, but what is poisoned, and that is kept.
func TestEverySwitch(t *testing.T) {
	t.Parallel()
	for _, fault := range (&axiomtest.Server{}).Faults() {
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := &axiomtest.Server{Token: "xaat-test", Dataset: "millrace"}
				d := deploy(t)
				d.server("a", fake, nil)
				n := 0
				emit := func(minutes int) {
					for range minutes {
						for range 30 {
							d.events.Emit(fact("demo", n))
							n++
						}
						pass(time.Minute)
					}
				}
				emit(2)
				if err := fake.Switch(fault.Name, true); err != nil {
					t.Fatal(err)
				}
				emit(10)
				during, asked := d.events.now(), fake.Requests()
				if err := fake.Switch(fault.Name, false); err != nil {
					t.Fatal(err)
				}
				emit(30)
				dead := map[string]bool{}
				for _, l := range d.events.letters {
					e, err := l.Event()
					if err != nil {
						t.Fatal(err)
					}
					dead[e.ID()] = true
				}
				there := arrived(fake)
				for i := range n {
					if id := fact("demo", i).ID(); there[id] == 0 && !dead[id] {
						t.Errorf("fact %d is nowhere", i)
					}
				}
				if got := d.events.now(); got.State != "ok" || got.Backlog > 0 || len(dead) > 0 && fault.Name != "poison" {
					t.Errorf("afterwards: %d dead letters, %+v", len(dead), got)
				}
				t.Logf("%d requests; while it was on: %s: %s", asked, during.State, during.Reason)
			})
		})
	}
}

// TestRows sends what no version of this program wrote, as far as it can be sent.
func TestRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		d := deploy(t)
		d.events.put("demo", "not_yet", []byte(`{"kind":"not_yet","_time":"2026-01-01T00:00:00Z","event_id":"demo/not_yet/1",`+
			`"run_id":"demo","x":{"y":1}}`))
		d.events.put("demo", "", []byte(`null`))
		d.events.put("demo", "group_dropped", []byte(`{"kind":"group_dropped","_time":5}`))
		for n := range 3 {
			d.events.Emit(fact("demo", n))
		}
		d.server("a", fake, nil)
		pass(time.Second)
		got := map[string]axiomtest.Event{}
		times := map[any]bool{}
		for _, e := range fake.Events() {
			got[fmt.Sprint(e["event_id"])] = e
			times[e["_time"]] = true
		}
		if len(got) != 4 || len(times) != 4 || len(d.events.letters) != 2 {
			t.Errorf("%d arrived at %d times, %d dead letters", len(got), len(times), len(d.events.letters))
		}
		newer := got["demo/not_yet/1"]
		if text, _ := newer["unknown_json"].(string); newer["kind"] != "not_yet" || !json.Valid([]byte(text)) {
			t.Errorf("%v", newer)
		}
		d.events.put("demo", "", []byte(`null`))
		pass(time.Second)
		if len(d.events.letters) != 3 || d.events.backlog() != 0 {
			t.Errorf("%d dead letters, %d wait, after one that came alone", len(d.events.letters), d.events.backlog())
		}
	})
}

// TestScopesShareABatch lets the fleet's events pass where a run has more than a batch holds.
func TestScopesShareABatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := &axiomtest.Server{}
		d := deploy(t)
		for n := range 5000 {
			d.events.Emit(fact("large", n))
		}
		for n := range 20 {
			d.events.Emit(fact("small", n))
		}
		requests := 0
		d.server("a", roundTrip(func(r *http.Request) (*http.Response, error) {
			requests++
			resp, err := fake.RoundTrip(r)
			if requests == 1 {
				small := 0
				for _, e := range fake.Events() {
					if e["run_id"] == "small" {
						small++
					}
				}
				if n := len(fake.Events()); small != 20 || n > 120 {
					t.Errorf("the first batch has %d events, %d of the small run", n, small)
				}
			}
			return resp, err
		}), func(c *axiom.Config) { c.BatchCount = 100 })
		pass(10 * time.Second)
		if n := len(arrived(fake)); n != 5020 || requests > 60 {
			t.Errorf("%d arrived in %d requests", n, requests)
		}
	})
}

// TestNewRefuses says what of a configuration cannot be right.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]axiom.Config{
		"dataset":      {Token: "xaat-test"},
		"no token":     {Dataset: "millrace"},
		"xaat-":        {Token: "secret", Dataset: "millrace"},
		"organisation": {Token: "xapt-secret", Dataset: "millrace"},
		"address":      {Token: "xaat-test", Dataset: "millrace", URL: "api.axiom.co"},
	} {
		_, err := axiom.New(cfg, newEvents(), "a", slog.New(slog.DiscardHandler), telemetry.Discard)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestOverTheWire uses a real connection, and no bubble.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	fake := &axiomtest.Server{Token: "xaat-test", Dataset: "millrace"}
	server := httptest.NewServer(fake)
	defer server.Close()
	d := deploy(t)
	for n := range 3000 {
		d.events.Emit(fact("demo", n))
	}
	d.server("a", http.DefaultTransport, func(c *axiom.Config) { c.URL = server.URL })
	for end := time.Now().Add(time.Minute); len(arrived(fake)) < 3000 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := len(arrived(fake)); n != 3000 {
		t.Errorf("%d arrived", n)
	}
}
