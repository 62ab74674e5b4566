package axiom_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/observe/axiom"
	"github.com/millrace/millrace/internal/observe/axiom/axiomtest"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	store "github.com/millrace/millrace/internal/store/eventstore"
	"github.com/millrace/millrace/internal/store/eventstore/delivery"
)

// process is a server that can be killed: from then on nothing that it does has any effect.
type process struct {
	*events
	dead    atomic.Bool
	shipper *axiom.Shipper
}

func (p *process) gone() error {
	if p.dead.Load() {
		return errRedis
	}
	return nil
}

func (p *process) Scopes(ctx context.Context) ([]rollout.RunName, error) {
	if err := p.gone(); err != nil {
		return nil, err
	}
	return p.events.Scopes(ctx)
}

func (p *process) Acknowledge(ctx context.Context, fence int64, portion delivery.Portion) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.events.Acknowledge(ctx, fence, portion)
}

func (p *process) DeadLetter(ctx context.Context, r store.Record, reason string) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.events.DeadLetter(ctx, r, reason)
}

func (p *process) Lease(ctx context.Context, owner string, ttl time.Duration) (int64, bool, error) {
	if err := p.gone(); err != nil {
		return 0, false, err
	}
	return p.events.Lease(ctx, owner, ttl)
}

func (p *process) SaveSinkStatus(ctx context.Context, fence int64, status telemetry.SinkStatus) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.events.SaveSinkStatus(ctx, fence, status)
}

func (p *process) Release(ctx context.Context, owner string) error {
	if err := p.gone(); err != nil {
		return err
	}
	return p.events.Release(ctx, owner)
}

// world is a deployment to which things happen, by a seed.
type world struct {
	t       *testing.T
	mu      sync.Mutex // guards rnd: servers send at once
	rnd     *rand.Rand
	events  *events
	axiom   *axiomtest.Server
	outage  atomic.Bool // nobody listens at Axiom's address
	faulty  atomic.Bool // Axiom answers in every way there is
	servers []*process
	started int
	rejects atomic.Bool // the last request was refused for its events
}

// draw is a number below n.
func (w *world) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n)
}

func (w *world) start() {
	w.started++
	p := &process{events: w.events}
	s, err := axiom.New(axiom.Config{Token: "xaat-test", Dataset: "millrace", URL: "http://axiom.test", BatchCount: 500,
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return w.send(p, r) }),
		Lease:     30 * time.Second, Poll: 10 * time.Second, Jitter: func() float64 { return 0.5 },
	}, p, fmt.Sprint("server-", w.started), slog.New(slog.DiscardHandler), w.events)
	if err != nil {
		w.t.Fatal(err)
	}
	p.shipper = s
	s.Start(context.Background())
	w.t.Cleanup(s.Close)
	w.servers = append(w.servers, p)
}

// send is a request of a process to Axiom, in the state in which both are. Some processes die just before the answer,
// or just after it.
func (w *world) send(p *process, r *http.Request) (*http.Response, error) {
	if p.dead.Load() || w.outage.Load() {
		return nil, axiomtest.ErrRefused
	}
	fault := 100
	if w.faulty.Load() {
		fault = w.draw(24)
	}
	rejected := w.rejects.Swap(fault == 2 || fault == 4)
	if rejected && (fault == 2 || fault == 4) { // twice in a row means that it is so
		fault = 100
		w.rejects.Store(false)
	}
	answer := func(status int, text string) (*http.Response, error) {
		rec := httptest.NewRecorder()
		axiomtest.Status(status, text)(rec, r)
		return rec.Result(), nil
	}
	switch fault {
	case 0:
		return answer([]int{500, 502, 503, 408}[w.draw(4)], "busy")
	case 1:
		return answer(429, "slow down")
	case 2:
		return answer(413, "too large")
	case 3:
		return answer([]int{401, 403, 404, 302}[w.draw(4)], "no")
	case 4:
		return answer(400, []string{"field limit exceeded", "cannot parse"}[w.draw(2)])
	case 5:
		_, _ = w.axiom.RoundTrip(r)
		return nil, fmt.Errorf("connection reset by peer")
	case 6:
		_, _ = w.axiom.RoundTrip(r)
		p.dead.Store(true)
		return nil, axiomtest.ErrRefused
	case 7:
		p.dead.Store(true)
		return nil, axiomtest.ErrRefused
	case 8:
		_, _ = w.axiom.RoundTrip(r)
		rec := httptest.NewRecorder()
		_, _ = rec.WriteString(`{"ingested":1,"failed":0}`)
		return rec.Result(), nil
	}
	resp, err := w.axiom.RoundTrip(r)
	if fault == 9 {
		p.dead.Store(true) // the answer comes, and is never written down
	}
	return resp, err
}

// TestNothingIsLost has Axiom unreachable for ten hours, servers killed at any moment, Redis gone now and then, every
// refusal in any order, events that are never taken, and a bound on what the store keeps. In the end each event that
// was written arrived, or is a dead letter, or was counted as it was let go.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nothingIsLost(t, seed) })
		})
	}
}

func nothingIsLost(t *testing.T, seed uint64) {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 3)), events: newEvents()}
	w.axiom = &axiomtest.Server{Refuse: func(e axiomtest.Event) string {
		if n, _ := e["group_id"].(float64); int(n)%97 == 5 {
			return "never"
		}
		return ""
	}}
	if seed%2 == 1 {
		w.events.trim = 1000
	}
	w.start()
	w.start()
	n := 0
	for at := time.Duration(0); at < 12*time.Hour; at += 30 * time.Second {
		pass(30 * time.Second)
		w.outage.Store(at > 30*time.Minute && at < 10*time.Hour+30*time.Minute)
		w.faulty.Store(!w.outage.Load())
		for range w.draw(4) {
			n++
			w.events.Emit(fact([]rollout.RunName{"", "one", "two"}[w.draw(3)], n))
		}
		switch w.draw(40) {
		case 0:
			w.servers[w.draw(len(w.servers))].dead.Store(true)
		case 1:
			w.events.mu.Lock()
			w.events.broken = func() error { return errRedis }
			w.events.mu.Unlock()
		default:
			w.events.mu.Lock()
			w.events.broken = nil
			w.events.mu.Unlock()
		}
		w.revive()
	}
	w.events.mu.Lock()
	w.events.broken = nil
	w.events.mu.Unlock()
	w.outage.Store(false)
	w.faulty.Store(false)
	w.revive()
	w.events.Emit(fact("", 1)) // beside which what is refused can be told from what nobody takes
	pass(20 * time.Minute)
	w.events.Emit(fact("", 2))
	pass(20 * time.Minute)

	there := arrived(w.axiom)
	dead := map[string]bool{}
	for _, l := range w.events.letters {
		e, err := l.Event()
		if err != nil {
			t.Fatal(err)
		}
		if e, is := e.Body.(telemetry.GroupDropped); !is || int(e.Seq)%97 != 5 {
			t.Errorf("%s is called refused, and is good: %s", l.ID, l.reason)
		}
		dead[e.ID()] = true
	}
	trimmed := int64(0)
	for _, s := range w.events.scopes {
		trimmed += s.trimmed
	}
	ids := int64(len(there) + len(dead))
	for id := range dead {
		if there[id] > 0 {
			t.Errorf("%s is a dead letter, and arrived", id)
		}
	}
	lost := int64(len(w.events.written)) - ids
	if lost > trimmed || w.events.trim == 0 && lost != 0 {
		t.Errorf("%d written, %d arrived, %d dead letters, %d let go: %d are missing", len(w.events.written), len(there),
			len(dead), trimmed, lost-trimmed)
	}
	if w.events.backlog() > 0 || w.events.now().State != "ok" {
		t.Errorf("%d wait in the end, %+v", w.events.backlog(), w.events.now())
	}
	t.Logf("%d written, %d arrived, %d dead letters, %d let go; %d processes, %d requests",
		len(w.events.written), len(there),
		len(dead), trimmed, w.started, w.axiom.Requests())
}

// revive starts a process for each that is dead.
func (w *world) revive() {
	for i, p := range w.servers {
		if p.dead.Load() {
			w.servers = append(w.servers[:i:i], w.servers[i+1:]...)
			w.start()
			return
		}
	}
}
