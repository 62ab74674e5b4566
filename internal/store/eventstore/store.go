// Package store keeps telemetry events in Redis: what the service's own diagnosis, pages and event streams read, and
// what is shipped to a sink such as Axiom.
// Each run has its events, and the fleet has its own, under the empty run name. Samples are kept for a while; facts,
// which must survive, far longer, a stream for each kind, so that a reader of a few kinds reads nothing else.
//
// A fact that Redis makes true is written by the script that does so: Lua is what buffer and fleet add to theirs.
// Other events are emitted: Emit never waits; facts wait on the disk until Redis has them, beyond the end of the
// process, and what is lost all the same is counted. Tell waits. A fact that is written twice, after a doubtful answer
// of Redis, has the same event_id both times.
//
// The sink is fed from the streams: package delivery.
//
// Start reading at Store, then append.lua for the keys, write_events.go and read_and_follow_events.go.
package store

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/telemetry"
	"github.com/millrace/millrace/internal/store/redisscript"
	"github.com/millrace/millrace/internal/store/spool"
)

// Store is the events in Redis. Emit may be called before Run and after Close.
type Store struct {
	Limits Limits // the defaults filled in

	rdb          redis.UniversalClient
	prefix       string
	appendScript *redis.Script

	newFacts   chan telemetry.Event
	newSamples chan telemetry.Event
	woken      chan struct{} // something waits to be written
	spool      *spool.Spool  // nil: facts wait in memory
	writer     chan struct{} // holds a token while Run, or Close after it, writes
	closing    chan struct{} // closed by Close
	close      sync.Once

	written, lostFacts, lostSamples atomic.Int64

	pending     atomic.Int64 // facts that are nowhere but in memory
	unavailable atomic.Bool  // Redis does not answer
	diskFault   atomic.Pointer[error]
	refusal     atomic.Pointer[error] // why Redis refused events for what they are, or for what holds their keys

	mu   sync.Mutex
	held []entry // facts that the disk does not take
}

var _ telemetry.Emitter = (*Store)(nil)

// New keeps events under prefix. Nothing is written until Run is called.
func New(rdb redis.UniversalClient, prefix string, limits Limits) *Store {
	limits = limits.withDefaults()
	return &Store{
		rdb: rdb, prefix: prefix, Limits: limits,
		appendScript: redisscript.New(limits.Lua() + appendBody),
		newFacts:     make(chan telemetry.Event, limits.Queue),
		newSamples:   make(chan telemetry.Event, max(1, limits.Queue/2)),
		woken:        make(chan struct{}, 1),
		writer:       make(chan struct{}, 1),
		closing:      make(chan struct{}),
	}
}

// SpoolIn has facts wait on the disk, in a folder below parent, until Redis has them: up to so many bytes, and beyond
// the end of the process. What earlier processes left there is written first. It is called before Run.
func (s *Store) SpoolIn(parent string, bytes int64) error {
	opened, err := spool.Open(parent, bytes)
	if err != nil {
		return err
	}
	s.spool = opened
	s.wake()
	return nil
}

// Emit takes an event and never waits: neither for Redis nor for the disk. If the queue is full, a fact is counted as
// lost, and of samples the oldest goes.
func (s *Store) Emit(e telemetry.Event) {
	if !e.Droppable() {
		s.pending.Add(1)
		select {
		case s.newFacts <- e:
		default:
			s.pending.Add(-1)
			s.lose(false, 1)
		}
		return
	}
	for range 2 {
		select {
		case s.newSamples <- e:
			s.wake()
			return
		default:
		}
		select {
		case <-s.newSamples:
			s.lose(true, 1)
		default:
		}
	}
	s.lose(true, 1)
}

func (s *Store) lose(sample bool, n int) {
	if sample {
		s.lostSamples.Add(int64(n))
	} else {
		s.lostFacts.Add(int64(n))
	}
}

// Stats counts the outcomes of the events that this process emitted.
type Stats struct {
	Written                int64
	LostFacts, LostSamples int64
	Waiting                int    // in memory
	SpoolBytes             int64  // waiting on the disk
	Unavailable            bool   // Redis does not answer
	DiskFault              string // why facts cannot wait on the disk; empty while they can
	Refusal                string // why Redis refused events, which are among the lost: the last reason
}

// Lost is all that is lost.
func (s Stats) Lost() int64 { return s.LostFacts + s.LostSamples }

// Stats counts events.
func (s *Store) Stats() Stats {
	st := Stats{Written: s.written.Load(), LostFacts: s.lostFacts.Load(), LostSamples: s.lostSamples.Load(),
		Unavailable: s.unavailable.Load()}
	st.Waiting = int(s.pending.Load()) + len(s.newSamples)
	if s.spool != nil {
		st.SpoolBytes = s.spool.Waiting()
	}
	if fault := s.diskFault.Load(); fault != nil {
		st.DiskFault = (*fault).Error()
	}
	if refusal := s.refusal.Load(); refusal != nil {
		st.Refusal = (*refusal).Error()
	}
	return st
}

// Close ends Run, and returns when what was emitted before is written or, after a bounded time, left on the disk or
// counted as lost. It works without Run, too, and more than once.
func (s *Store) Close() {
	s.close.Do(func() { close(s.closing) })
	s.writer <- struct{}{}
	defer func() { <-s.writer }()
	s.flush(context.Background(), batch{})
	if s.spool != nil {
		if err := s.spool.Close(); err != nil {
			s.diskFault.Store(&err)
		}
	}
}

func (s *Store) keys(run rollout.RunName) Keys { return KeysOf(s.prefix, run) }

var (
	errClosed  = errors.New("store closed") // ends Run's own waits
	errNoSpool = errors.New("no spool")
)
