// Package store keeps telemetry events in Redis: what the service's own diagnosis, pages and event streams read.
// Each run has its events, and the fleet has its own, under the empty run name. Samples are kept for a while;
// facts, which must survive, far longer.
//
// Emit never waits: a bounded queue, one writer, and losses that are counted. An event that is written twice, after a
// doubtful answer of Redis, has the same event_id both times. Start reading at Store, then write_events.go and
// read_events.go.
package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
)

// Limits bounds what a Store holds; zero fields take the defaults named.
type Limits struct {
	Queue  int   // events waiting to be written; 8192
	Recent int64 // events of any kind kept per run; 10,000
	Facts  int64 // facts kept per run; 50,000
}

func (l Limits) withDefaults() Limits {
	if l.Queue <= 0 {
		l.Queue = 8192
	}
	if l.Recent <= 0 {
		l.Recent = 10_000
	}
	if l.Facts <= 0 {
		l.Facts = 50_000
	}
	return l
}

// Store is the events in Redis. Emit may be called before Run and after Close.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
	limits Limits

	queue   chan telemetry.Event
	writer  chan struct{} // holds a token while Run, or Close after it, writes
	closing chan struct{} // closed by Close
	close   sync.Once

	written, lost atomic.Int64
}

var _ telemetry.Emitter = (*Store)(nil)

// New keeps events under prefix. Nothing is written until Run is called.
func New(rdb redis.UniversalClient, prefix string, limits Limits) *Store {
	limits = limits.withDefaults()
	return &Store{
		rdb: rdb, prefix: prefix, limits: limits,
		queue:   make(chan telemetry.Event, limits.Queue),
		writer:  make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
}

// Emit takes an event, or counts it as lost: a fact when the queue is full, a sample already when it is
// half full, so that samples cannot crowd out facts.
func (s *Store) Emit(e telemetry.Event) {
	if e.Droppable() && len(s.queue) >= cap(s.queue)/2 {
		s.lost.Add(1)
		return
	}
	select {
	case s.queue <- e:
	default:
		s.lost.Add(1)
	}
}

// Stats is what became of the events emitted so far.
type Stats struct {
	Written int64
	Lost    int64
	Waiting int
}

// Stats counts events.
func (s *Store) Stats() Stats {
	return Stats{Written: s.written.Load(), Lost: s.lost.Load(), Waiting: len(s.queue)}
}

// Close ends Run, and returns when what was emitted before is written or, after a bounded time, counted as lost. It
// works without Run, too, and more than once.
func (s *Store) Close() {
	s.close.Do(func() { close(s.closing) })
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	s.flush(context.Background(), nil)
}

// Delete forgets a run's events.
func (s *Store) Delete(ctx context.Context, run rollout.RunName) error {
	return s.rdb.Unlink(ctx, s.recentKey(run), s.factsKey(run)).Err()
}

// scope is the hash tag of a run's keys: both streams are written by one script.
func (s *Store) scope(run rollout.RunName) string {
	if run == "" {
		return s.prefix + ":{fleet}:"
	}
	return s.prefix + ":{" + string(run) + "}:"
}

func (s *Store) recentKey(run rollout.RunName) string { return s.scope(run) + "events" }
func (s *Store) factsKey(run rollout.RunName) string  { return s.scope(run) + "facts" }
func (s *Store) goneKey(run rollout.RunName) string   { return s.scope(run) + "gone" } // the buffer's

// errClosed ends Run's own waits.
var errClosed = errors.New("store closed")
