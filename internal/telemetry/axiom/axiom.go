// Package axiom ships telemetry events to Axiom. It is a sink and nothing reads from it: the service works, and
// explains itself, with Axiom slow, refusing or absent.
//
// Emit never waits: a bounded queue, one sender, and losses that are counted. Delivery is at least once: after a
// doubtful answer a batch is sent again, and queries tell duplicates by event_id. The client library's own retries
// are off, because they ignore deadlines and lose answers; what to do about each answer is the pure function react.
// Start reading at Shipper, then react_to_answer.go.
package axiom

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	client "github.com/axiomhq/axiom-go/axiom"
	"github.com/klauspost/compress/zstd"

	"github.com/millrace/millrace/internal/telemetry"
)

// Config says where to ship and in what portions; zero values take the defaults named.
type Config struct {
	Token   string
	Dataset string
	URL     string // Axiom's own, if empty
	OrgID   string // needed with personal tokens only

	Queue      int           // events waiting to be sent; 20,000
	BatchCount int           // events per request; 5,000
	BatchBytes int           // of their JSON; 1 MB
	Flush      time.Duration // how long an event waits for company; 1s
	Grace      time.Duration // how long Close tries to send what is left; 10s

	HTTPClient *http.Client   // nil: one with a deadline of 30s per request that asks the environment for a proxy
	Jitter     func() float64 // spreads retries, in [0,1); nil: random
}

func (c Config) withDefaults() Config {
	setDefault(&c.Queue, 20_000)
	setDefault(&c.BatchCount, 5_000)
	setDefault(&c.BatchBytes, 1<<20)
	setDefault(&c.Flush, time.Second)
	setDefault(&c.Grace, 10*time.Second)
	if c.HTTPClient == nil {
		c.HTTPClient = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	return c
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// Shipper sends events. Emit may be called before Run and after Close.
type Shipper struct {
	cfg    Config
	client *client.Client
	wire   *wire
	zstd   *zstd.Encoder

	queue   chan telemetry.Event
	sender  chan struct{} // holds a token while Run, or Close after it, sends
	closing chan struct{} // closed by Close
	close   sync.Once

	mu    sync.Mutex
	stats Stats
}

var _ telemetry.Emitter = (*Shipper)(nil)

// New checks the configuration. Nothing is sent until Run is called.
func New(cfg Config) (*Shipper, error) {
	if cfg.Dataset == "" {
		return nil, errors.New("axiom: no dataset named")
	}
	cfg = cfg.withDefaults()
	w := &wire{next: cfg.HTTPClient.Transport}
	if w.next == nil {
		w.next = http.DefaultTransport
	}
	watched := *cfg.HTTPClient
	watched.Transport = w
	options := []client.Option{
		client.SetNoEnv(), client.SetNoRetry(), client.SetNoTracing(), client.SetClient(&watched),
	}
	if cfg.OrgID != "" {
		options = append(options, client.SetPersonalTokenConfig(cfg.Token, cfg.OrgID))
	} else {
		options = append(options, client.SetAPITokenConfig(cfg.Token))
	}
	if cfg.URL != "" {
		options = append(options, client.SetURL(cfg.URL))
	}
	c, err := client.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("axiom: %w", err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("axiom: %w", err)
	}
	return &Shipper{
		cfg: cfg, client: c, wire: w, zstd: encoder,
		queue: make(chan telemetry.Event, cfg.Queue), sender: make(chan struct{}, 1), closing: make(chan struct{}),
	}, nil
}

// Emit takes an event, or counts it as dropped: a fact when the queue is full, a sample already when it is half full.
func (s *Shipper) Emit(e telemetry.Event) {
	if e.Droppable() && len(s.queue) >= cap(s.queue)/2 {
		s.count(func(st *Stats) { st.Dropped++ })
		return
	}
	select {
	case s.queue <- e:
	default:
		s.count(func(st *Stats) { st.Dropped++ })
	}
}

// Stats is what became of the events so far.
type Stats struct {
	Ingested int64 // acknowledged by Axiom
	Rejected int64 // refused by Axiom for what they are
	Dropped  int64 // never sent: the queue was full, or Close ran out of time
	Waiting  int
	// Degraded says why nothing can be delivered until somebody changes something; empty while all is well.
	Degraded  string
	LastError string
}

// Stats counts events.
func (s *Shipper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Waiting = len(s.queue)
	return st
}

func (s *Shipper) count(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.stats)
}

// Run sends events until ctx is done or Close is called, and then, for a bounded time, what is left.
func (s *Shipper) Run(ctx context.Context) {
	s.sender <- struct{}{}
	defer func() { <-s.sender }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	var rest []line
	for ctx.Err() == nil && len(rest) == 0 {
		rest = s.deliver(ctx, s.gather(ctx))
	}
	s.drain(ctx, rest)
}

// Close ends Run, and returns when what was emitted before is sent or, after a bounded time, counted as dropped. It
// works without Run, too, and more than once.
func (s *Shipper) Close() {
	s.close.Do(func() { close(s.closing) })
	s.sender <- struct{}{}
	defer func() { <-s.sender }()
	s.drain(context.Background(), nil)
}

// drain sends rest and the queue, within the grace.
func (s *Shipper) drain(ctx context.Context, rest []line) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Grace)
	defer cancel()
	for {
		rest = s.deliver(ctx, rest)
		if len(rest) > 0 {
			s.count(func(st *Stats) { st.Dropped += int64(len(rest)) })
		}
		if rest = s.queued(); len(rest) == 0 {
			return
		}
	}
}
