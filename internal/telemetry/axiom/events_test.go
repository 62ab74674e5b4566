package axiom_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/telemetry"
	"github.com/millrace/millrace/internal/telemetry/axiom"
	"github.com/millrace/millrace/internal/telemetry/store"
)

// events is an event store in memory that works, with faults on request: the real one is tried in the server's tests.
type events struct {
	mu      sync.Mutex
	scopes  map[rollout.RunName]*scope
	letters []letter
	room    int // for dead letters; 0: any
	owner   string
	until   time.Time
	fence   int64
	status  telemetry.SinkStatus
	broken  func() error    // nil, or why a call fails
	trim    int             // most events that a scope keeps unshipped; 0: any
	written map[string]bool // event ids
}

type scope struct {
	kept    []store.Record
	next    int
	fence   int64
	trimmed int64
}

type letter struct {
	store.Record
	reason string
}

var _ axiom.Events = (*events)(nil)

func newEvents() *events {
	return &events{scopes: map[rollout.RunName]*scope{}, written: map[string]bool{}}
}

// Emit keeps an event.
func (e *events) Emit(event telemetry.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	data, err := telemetry.Encode(event)
	if err != nil {
		panic(err)
	}
	e.written[event.ID()] = true
	e.put(event.Run, event.Kind(), data)
}

func (e *events) put(run rollout.RunName, kind string, data []byte) {
	s := e.scopes[run]
	if s == nil {
		s = &scope{}
		e.scopes[run] = s
	}
	s.next++
	s.kept = append(s.kept, store.Record{ID: fmt.Sprintf("%d-%d", time.Now().UnixMilli(), s.next), Kind: kind, Data: data,
		Scope: run})
	if e.trim > 0 && len(s.kept) > e.trim {
		s.trimmed += int64(len(s.kept) - e.trim)
		s.kept = slices.Delete(s.kept, 0, len(s.kept)-e.trim)
	}
}

func (e *events) enter() error {
	e.mu.Lock()
	if e.broken != nil {
		return e.broken()
	}
	return nil
}

func (e *events) Scopes(context.Context, string) ([]rollout.RunName, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return nil, err
	}
	var out []rollout.RunName
	for name, s := range e.scopes {
		if len(s.kept) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

func (e *events) Lag(_ context.Context, _ string, run rollout.RunName) (store.Lag, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return store.Lag{}, err
	}
	return e.lag(run), nil
}

func (e *events) lag(run rollout.RunName) store.Lag {
	s := e.scopes[run]
	lag := store.Lag{Facts: int64(len(s.kept)), LostFacts: s.trimmed}
	if len(s.kept) > 0 {
		var ms, seq int64
		_, _ = fmt.Sscanf(s.kept[0].ID, "%d-%d", &ms, &seq)
		lag.Oldest = time.UnixMilli(ms)
	}
	return lag
}

func (e *events) Unshipped(_ context.Context, _ string, run rollout.RunName,
	limit int) ([]store.Record, store.Lag, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return nil, store.Lag{}, err
	}
	s := e.scopes[run]
	return slices.Clone(s.kept[:min(limit, len(s.kept))]), e.lag(run), nil
}

func (e *events) Acknowledge(_ context.Context, _ string, fence int64, run rollout.RunName, ids ...string) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	s := e.scopes[run]
	if fence < e.fence || fence < s.fence {
		return store.ErrFenced
	}
	s.fence = fence
	s.kept = slices.DeleteFunc(s.kept, func(r store.Record) bool { return slices.Contains(ids, r.ID) })
	return nil
}

func (e *events) DeadLetter(_ context.Context, _ string, r store.Record, reason string) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if e.room > 0 && len(e.letters) >= e.room {
		return store.ErrDeadLettersFull
	}
	e.letters = append(e.letters, letter{r, reason})
	return nil
}

func (e *events) DeadLetters(_ context.Context, _, after string, limit int) ([]store.DeadLetter, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return nil, err
	}
	var out []store.DeadLetter
	for _, l := range e.letters {
		if l.ID > after && len(out) < limit {
			out = append(out, store.DeadLetter{ID: l.ID, Reason: l.reason, Data: l.Data})
		}
	}
	return out, nil
}

func (e *events) Replay(_ context.Context, _ string, ids ...string) (int, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		i := slices.IndexFunc(e.letters, func(l letter) bool { return l.ID == id })
		e.put(store.Replayed, e.letters[i].Kind, e.letters[i].Data)
		e.letters = slices.Delete(e.letters, i, i+1)
	}
	return len(ids), nil
}

func (e *events) Lease(_ context.Context, _, owner string, ttl time.Duration) (int64, bool, error) {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return 0, false, err
	}
	now := time.Now()
	switch {
	case e.owner == owner && now.Before(e.until):
	case e.owner == "" || !now.Before(e.until):
		e.owner = owner
		e.fence++
	default:
		return e.fence, false, nil
	}
	e.until = now.Add(ttl)
	return e.fence, true, nil
}

func (e *events) Release(_ context.Context, _, owner string) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if e.owner == owner {
		e.owner = ""
	}
	return nil
}

func (e *events) SinkStatus(context.Context, string) (telemetry.SinkStatus, error) {
	defer e.mu.Unlock()
	err := e.enter()
	return e.status, err
}

func (e *events) SaveSinkStatus(_ context.Context, fence int64, status telemetry.SinkStatus) error {
	defer e.mu.Unlock()
	if err := e.enter(); err != nil {
		return err
	}
	if fence < e.fence {
		return store.ErrFenced
	}
	e.status = status
	return nil
}

// now is the status as somebody who asks sees it.
func (e *events) now() telemetry.SinkStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status.Seen(time.Now())
}

func (e *events) backlog() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, s := range e.scopes {
		n += len(s.kept)
	}
	return n
}

var errRedis = errors.New("redis: connection refused")
